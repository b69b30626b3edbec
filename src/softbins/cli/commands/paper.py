"""The commands of `softbins paper`: run the paper's experiments, and show their results.

Each command reads its options, calls `softbins.paper`, and prints or writes what comes back.
Modules that need torch or matplotlib are imported inside the commands, so that help is quick.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from softbins._core.files import write_whole
from softbins._core.text import aligned, json_text
from softbins.cli.options import COUNT, JSON, examples, new_file, option
from softbins.paper.data.datasets import DATASETS, dataset_title, is_simulated
from softbins.paper.data.splits import SplitKind
from softbins.paper.run.plan import (
    ARTEFACTS,
    SCALES,
    SELECTIONS,
    Artefact,
    Run,
    Scale,
    Selection,
    artefact_runs,
    plan_runs,
    split_kinds,
)
from softbins.paper.run.store import Store

FIGURE_NAMES = ("bins", "sigma", "curves", "targets")
TABLE_NAMES = ("table", "representations", "claims", "overview")
FORMATS = ("terminal", "markdown", "latex", "csv", "json")
PICTURE_SUFFIXES = (".svg", ".pdf")
HEALING = "`softbins paper run` sets it aside and makes it again"

STORE_OPTION = option(
    "--store", "folder", type=click.Path(path_type=Path), default="results", help="The records."
)
DATASET_OPTION = option("--dataset", type=click.Choice(DATASETS), default="bike")
DATASETS_OPTION = option(
    "--dataset", "datasets", type=click.Choice(DATASETS), multiple=True, default=["bike"]
)
SCALE_OPTION = click.option(
    "--scale", type=click.Choice(list(SCALES)), help="Default: the largest one that was run."
)
DATA_OPTION = click.option(
    "--data", type=click.Path(path_type=Path), help="Where fetched files are, if elsewhere."
)


@click.group(
    epilog=examples(
        "paper run table --scale demo",
        "paper table bike",
        "paper figure curves -o curves.svg",
        "paper report -o report.html",
    )
)
def paper() -> None:
    """Repeat the paper's experiments and put them beside its figures.

    Bike Sharing comes with the package. CT Position and Song Year are fetched, or simulated
    (ct-simulated, song-simulated). Repeat a command that was interrupted, and it goes on.
    """


@paper.command(
    epilog=examples(
        "paper run --dataset bike --scale paper",
        "paper run table curves --scale quick --workers 2",
        "paper run table --dataset ct --scale paper --cluster tcp://10.0.0.1:8786",
    )
)
@click.argument("artefacts", type=click.Choice(ARTEFACTS), nargs=-1)
@DATASETS_OPTION
@option("--scale", type=click.Choice(list(SCALES)), default="quick", help="How much to run.")
@click.option("--workers", type=COUNT, help="Processes, one for each core if not given.")
@click.option("--cluster", metavar="ADDRESS", help="A Dask scheduler to run on.")
@STORE_OPTION
@DATA_OPTION
def run(
    artefacts: tuple[Artefact, ...],
    datasets: tuple[str, ...],
    scale: str,
    workers: int | None,
    cluster: str | None,
    folder: Path,
    data: Path | None,
) -> None:
    """Train what the ARTEFACTs need (default: all) and is not in the store yet."""
    from softbins.paper.run.healing import heal_store
    from softbins.paper.run.progress import show_progress
    from softbins.paper.run.stacks import make_waves, unfinished_waves
    from softbins.paper.run.workers import run_all

    store = Store(folder)
    chosen = artefacts or ARTEFACTS
    runs = [run for name in datasets for run in plan_runs(chosen, name, SCALES[scale])]
    heal_store((stack for wave in make_waves(runs) for stack in wave), store, _warn)
    left = [stack for wave in unfinished_waves(runs, store) for stack in wave]
    _check_data({stack[0].dataset for stack in left}, data)
    n_workers = workers or len(os.sched_getaffinity(0))
    with show_progress(left, store) as on_finished:
        run_all(
            runs,
            store,
            workers=n_workers,
            cluster=cluster,
            data=data,
            on_finished=on_finished,
            on_set_aside=_warn,
        )
    click.echo(f"{len(runs)} runs are finished at scale {scale}, {len(left)} stacks were trained")


def _warn(line: str) -> None:
    click.echo(f"softbins: warning: {line}", err=True)


def _check_data(datasets: Iterable[str], data: Path | None) -> None:
    """Load the real datasets, so that a missing file is found before any worker starts."""
    from softbins.paper.data.datasets import load_dataset

    for name in datasets:
        if not is_simulated(name):
            load_dataset(name, data)


@paper.command(epilog=examples("paper status", "paper status --dataset ct --scale paper --json"))
@DATASET_OPTION
@SCALE_OPTION
@STORE_OPTION
@JSON
def status(dataset: str, scale: str | None, folder: Path, as_json: bool) -> None:
    """Show how many runs of each artefact are finished, and what is running."""
    store = Store(folder)
    chosen = find_scale(scale, dataset, store, ARTEFACTS)
    counts, all_runs = [], plan_runs(ARTEFACTS, dataset, chosen)
    for artefact in ARTEFACTS:
        runs = artefact_runs(artefact, dataset, chosen)
        finished = sum(map(store.has, runs))
        counts.append({"artefact": artefact, "finished": finished, "planned": len(runs)})
    summary = {
        "dataset": dataset,
        "scale": chosen.name,
        "artefacts": counts,
        # A worker that was killed may have left a report, but it no longer holds the lock.
        "running": [r for r in store.read_progress() if store.is_locked(r["stack"])],
        "damaged": store.damaged_records(all_runs),
    }
    click.echo(json_text(summary) if as_json else _status_text(summary))
    _note_absence(store, dataset, all_runs)


def _status_text(summary: dict[str, Any]) -> str:
    head = [["artefact", "finished", "planned"]]
    body = [[str(value) for value in counts.values()] for counts in summary["artefacts"]]
    title = f"{dataset_title(summary['dataset'])}, scale {summary['scale']}"
    running = [
        f"running: {report['title']}, epoch {report['epoch']} of {report['epochs']}"
        for report in summary["running"]
    ]
    damaged = [f"damaged: {line}; {HEALING}" for line in summary["damaged"]]
    return "\n".join([title, aligned(head + body), *running, *damaged])


def _note_damage(store: Store, runs: Sequence[Run]) -> None:
    """Say on stderr which records are left out because they are damaged."""
    damaged = store.damaged_records(runs)
    if damaged:
        count = (
            "a damaged record is" if len(damaged) == 1 else f"{len(damaged)} damaged records are"
        )
        _warn(f"{count} left out: {damaged[0]}; {HEALING}")


def _note_absence(store: Store, dataset: str, runs: Sequence[Run]) -> None:
    """Say on stderr how to begin if none of the runs is finished."""
    if not runs or any(map(store.has, runs)):
        return
    others = [name for name in DATASETS if any((store.folder / name).glob("*.json"))]
    known = f"there are records of {', '.join(others)}; " if others else ""
    command = f"softbins paper run --dataset {dataset} --scale demo --store {store.folder}"
    click.echo(f"softbins: no run for it is finished; {known}make some: {command}", err=True)


@paper.command(
    epilog=examples(
        "paper table bike",
        "paper table bike --selection honest --format markdown",
        "paper table representations --dataset bike --format latex -o table2.tex",
        "paper table bike --json",
    )
)
@click.argument("name", type=click.Choice([*DATASETS, *TABLE_NAMES]))
@DATASET_OPTION
@SCALE_OPTION
@option(
    "--selection", type=click.Choice(SELECTIONS), default="paper", help="How settings are chosen."
)
@option("--split", type=click.Choice(["random", "fixed", "grouped"]), default="random")
@option("--format", "format_name", type=click.Choice(FORMATS), default="terminal")
@click.option("-o", "output", metavar="FILE", callback=new_file(), help="Write a file instead.")
@STORE_OPTION
@DATA_OPTION
@JSON
def table(
    name: str,
    dataset: str,
    scale: str | None,
    selection: Selection,
    split: SplitKind,
    format_name: str,
    output: Path | None,
    folder: Path,
    data: Path | None,
    as_json: bool,
) -> None:
    """Show a table beside the paper's: that of a dataset, or one of the others by its NAME."""
    from softbins.paper.show.formats import plain_text, render
    from softbins.paper.show.paper_tables import make_table

    dataset, name = (name, "table") if name in DATASETS else (dataset, name)
    if name == "table" and split not in split_kinds(dataset):
        known = ", ".join(split_kinds(dataset))
        raise click.UsageError(f"--split: {dataset} has {known}; got {split}")
    store = Store(folder)
    chosen = find_scale(scale, dataset, store, [name])
    _note_damage(store, runs := _planned([name], dataset, chosen))
    _note_absence(store, dataset, runs)
    made = make_table(name, dataset, chosen, store, selection=selection, split=split, data=data)
    kind = "json" if as_json else format_name
    # A file has no use for the colors that a terminal gets.
    text = plain_text(made) if kind == "terminal" and output else render(made, kind)
    _write_or_print(text, output)


def _write_or_print(text: str, path: Path | None) -> None:
    if path is None:
        click.echo(text)
        return
    write_whole(path, (text.rstrip("\n") + "\n").encode())
    click.echo(f"wrote {path}", err=True)


@paper.command(
    epilog=examples("paper figure curves -o curves.svg", "paper figure bins -o bins.pdf")
)
@click.argument("name", type=click.Choice(FIGURE_NAMES))
@DATASET_OPTION
@SCALE_OPTION
@click.option("-o", "output", metavar="FILE", callback=new_file(), help=".svg or .pdf.")
@STORE_OPTION
def figure(name: str, dataset: str, scale: str | None, output: Path | None, folder: Path) -> None:
    """Draw a figure of the paper from the records."""
    from softbins.paper.show.figures import make_figure, save_figure

    store = Store(folder)
    chosen = find_scale(scale, dataset, store, [name])
    path = output or Path(f"{name}-{dataset}-{chosen.name}.svg")
    if path.suffix not in PICTURE_SUFFIXES:
        raise click.UsageError(f"-o: expected a name that ends in .svg or .pdf, got {path}")
    _note_damage(store, _planned([name], dataset, chosen))
    drawn = make_figure(name, dataset, chosen, store)
    if drawn is None:
        command = f"softbins paper run {name} --scale {chosen.name}"
        raise click.UsageError(f"no run for it is finished: {command}")
    save_figure(drawn, path)
    click.echo(path)


@paper.command(epilog=examples("paper report", "paper report --dataset bike -o bike.html"))
@DATASET_OPTION
@SCALE_OPTION
@click.option("-o", "output", metavar="FILE", callback=new_file(), help="Where to write the page.")
@STORE_OPTION
def report(dataset: str, scale: str | None, output: Path | None, folder: Path) -> None:
    """Write everything on one page, which opens anywhere."""
    from softbins.paper.show.report import write_report

    store = Store(folder)
    chosen = find_scale(scale, dataset, store, ARTEFACTS)
    path = output or Path(f"report-{dataset}-{chosen.name}.html")
    _note_damage(store, runs := _planned(ARTEFACTS, dataset, chosen))
    _note_absence(store, dataset, runs)
    write_report(path, dataset, chosen, store)
    click.echo(path.resolve())


@paper.command(
    epilog=examples("paper fetch ct song", "paper fetch ct --from slice_localization_data.zip")
)
@click.argument("names", type=click.Choice(["ct", "song"]), nargs=-1, required=True)
@click.option(
    "--from", "source", type=click.Path(path_type=Path), help="A file that you have already."
)
@DATA_OPTION
def fetch(names: tuple[str, ...], source: Path | None, data: Path | None) -> None:
    """Download CT Position or Song Year from UCI's archive, check and keep them."""
    from softbins.paper.data.originals import default_folder, fetch_original

    if source is not None and len(names) > 1:
        raise click.UsageError("--from: one file is one dataset; name it alone")
    folder = data or default_folder()
    for name in names:
        click.echo(fetch_original(name, folder, source, progress=True))


def find_scale(name: str | None, dataset: str, store: Store, artefacts: Iterable[str]) -> Scale:
    """The scale of that name; without a name, the largest one that was run.

    That is the largest of which a run for the artefacts is finished; else one for others; else the
    largest of which some run has begun; else the paper's.
    """
    if name is not None:
        return SCALES[name]
    from softbins.paper.run.stacks import make_waves, stack_name

    largest_first = list(reversed(SCALES.values()))
    for chosen in (list(artefacts), list(ARTEFACTS)):
        for scale in largest_first:
            if any(map(store.has, _planned(chosen, dataset, scale))):
                return scale
    begun = {report["stack"] for report in store.read_progress()}
    for scale in largest_first if begun else ():
        waves = make_waves(_planned(ARTEFACTS, dataset, scale))
        if begun & {stack_name(stack) for wave in waves for stack in wave}:
            return scale
    return SCALES["paper"]


def _planned(names: Iterable[str], dataset: str, scale: Scale) -> list[Run]:
    """All runs of the artefacts among these names; some tables and figures need none."""
    wanted = set(names)
    return plan_runs([name for name in ARTEFACTS if name in wanted], dataset, scale)
