"""The command line: fit, predict, evaluate, compare and info, for tables in files, and the paper.

Results go to stdout, everything else to stderr. What is wrong with the input is said in one line
with exit code 2, if possible before training starts. Libraries load where they are used, because
`softbins --help` need not wait for torch.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import softbins
import softbins.cli.table_files as tables
from softbins._extras import optional_import
from softbins._text import aligned, json_text, shown
from softbins.cli.table_files import Array, TableError

try:
    import click
except ImportError as error:
    # The command exists even where the extra that it needs was not asked for.
    print('softbins: click is not installed: pip install "softbins[cli]"', file=sys.stderr)
    raise SystemExit(2) from error

from softbins.cli.options import (
    CHOSEN,
    DATA,
    JSON,
    METHODS,
    MODEL,
    PAGE,
    PICTURE,
    SHARE,
    TABLE,
    TARGET,
    check_drawn,
    check_training,
    epochs,
    estimator,
    examples,
    levels,
    new_file,
    option,
    picture_format,
    seed,
    training,
)

Row = dict[str, Any]
Update = Callable[[float, str, float | None], None]


class _Interrupted(click.ClickException):
    """Ctrl-C, which click would answer with exit code 1."""


class _Program(click.Group):
    """The commands together: every failure that is not a bug of ours ends in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, also of what is loaded only when it is asked for."""
        return sorted([*super().list_commands(ctx), "paper"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command by its name."""
        if cmd_name == "paper":
            from softbins.cli.paper import paper

            return paper
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _Interrupted("interrupted") from None
        except (MemoryError, RuntimeError) as error:
            # torch has no class of its own for it on a CPU.
            if isinstance(error, MemoryError) or "memory" in str(error):
                advice = "use fewer bins, members, hidden units or rows"
                raise click.ClickException(f"not enough memory; {advice}") from error
            raise

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run the program and exit: with 0, 2 for bad input, or 130 for Ctrl-C."""
        settings = {"prog_name": "softbins", **extra, "standalone_mode": False}
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                code = super().main(*args, **settings)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(2)
        except (click.ClickException, click.Abort, ValueError, OSError, ImportError) as error:
            click.echo(f"softbins: {_line(error)}", err=True)
            sys.exit(130 if isinstance(error, (_Interrupted, click.Abort)) else 2)
        sys.exit(code if isinstance(code, int) else 0)


def _line(error: Exception) -> str:
    """What an error says, in one line."""
    text = str(error) or type(error).__name__
    if isinstance(error, click.ClickException):
        text = error.format_message()
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(part.strip() for part in text.splitlines())


def _warn(message: Warning | str, *_where: Any, **_more: Any) -> None:
    """A warning as its users need it: without the line of code that gave it."""
    click.echo(f"softbins: warning: {message}", err=True)


# Commands


@click.group(
    "softbins",
    cls=_Program,
    epilog=examples(
        "fit houses.csv --target price -o houses.model",
        "predict houses.model new.csv -o predicted.csv --interval 0.9",
        "evaluate houses.model sold.csv --target price --page houses.html",
        "compare houses.csv --target price --plot errors.svg",
    ),
)
@click.version_option(package_name="softbins")
def main() -> None:
    """Regression that predicts a histogram instead of a number.

    Tables are .csv, .parquet or .pq files, also with .gz, with a header. Features are numbers,
    true and false, or text that names categories, and may have empty cells; the target is numbers.
    """


@main.command(
    epilog=examples(
        "fit houses.csv --target price -o houses.model",
        "fit houses.parquet --target price -o houses.model --preset fast --max-seconds 60",
        "fit houses.csv --target price -o l2.model --objective l2 --hidden 128,128 --json",
    )
)
@DATA
@TARGET
@click.option("-o", "output", metavar="MODEL", required=True, callback=new_file(), help="The file.")
@training
@JSON
def fit(data: Path, target: str, output: Path, as_json: bool, **options: Any) -> None:
    """Train a model on DATA and save it.

    hl-gaussian is a HistogramRegressor: networks and boosted trees, calibrated on rows that were
    held out. --plain, and all other objectives, are the paper's network and nothing else.
    """
    check_training(options)
    tables.check_different(output, data)
    x, y, names = _training_table(data, target)
    model = _trained(x, y, options)
    model.save(output)
    summary = {"model": str(output), "objective": options["objective"], "rows": len(y)}
    # How many of each kind: a stray word among numbers shows here as a category too many.
    summary |= {"features": len(names), "kinds": Counter(model.columns_.kinds)}
    _show(summary, model, as_json)


@main.command(
    epilog=examples(
        "predict houses.model new.csv -o predicted.csv",
        "predict houses.model new.csv -o predicted.parquet --interval 0.9",
        "predict houses.model new.csv -o - --output median --quantiles 0.1,0.5,0.9",
    )
)
@MODEL
@DATA
@click.option(
    "-o", "path", metavar="OUT", required=True, callback=TABLE, help="Table; - is stdout."
)
@option("--interval", type=float, callback=SHARE, help="Add an interval that covers this share.")
@click.option("--raw", is_flag=True, help="Intervals of the distribution itself, not calibrated.")
@option("--quantiles", callback=levels, help="Add quantiles, such as 0.1,0.5,0.9.")
@option("--output", type=click.Choice(["mean", "median", "mode"]), default="mean")
def predict(model: Path, data: Path, path: str | Path, **options: Any) -> None:
    """Predict every row of DATA with a saved MODEL.

    The columns are found by name, in any order; columns that the model does not know are ignored.
    """
    if options["raw"] and options["interval"] is None:
        raise click.UsageError("--raw: is about intervals; give --interval as well")
    tables.check_different(path, model, data)
    result = _predicted(softbins.load(model), data, **options)
    if path == "-":
        click.echo(tables.csv_text(result), nl=False)
    else:
        tables.write_table(result, path)
        click.echo(f"wrote {len(result)} predictions to {path}", err=True)


@main.command(
    epilog=examples(
        "evaluate houses.model sold.csv --target price",
        "evaluate houses.model sold.csv --target price --page houses.html --coverage 0.8",
        "evaluate houses.model sold.csv --target price --json",
    )
)
@MODEL
@DATA
@TARGET
@option("--coverage", type=float, default=0.9, callback=SHARE, help="Share in the intervals.")
@PAGE
@JSON
def evaluate(
    model: Path, data: Path, target: str, coverage: float, page: Path | None, as_json: bool
) -> None:
    """Judge a saved MODEL by rows of DATA that it was not trained on.

    A page shows figures of the predictions, of how honest they are, and of the training as well.
    """
    check_drawn([page], model, data)
    fitted = softbins.load(model)
    found = _evaluated(fitted, data, target, coverage)
    if page is not None:
        tables.write_text(found.page(model.name, data.name), page)
    _show({"model": str(model)} | found.summary(), fitted, as_json)
    for remark in found.remarks():
        click.echo(remark, err=True)


@main.command(
    epilog=examples(
        "compare houses.csv --target price",
        "compare houses.csv --target price --methods linear,l2,hl-gaussian --folds 10",
        "compare houses.csv --target price --epochs 300 --plot errors.svg --page errors.html",
    )
)
@DATA
@TARGET
@option("--folds", type=click.IntRange(min=2), default=5)
@option("--methods", default=",".join(METHODS), callback=CHOSEN, help="What to compare.")
@epochs("epochs", default=100)
@seed("seed")
@option("--plot", metavar="FILE", callback=PICTURE, help="Draw the MAE: .svg, .png or .pdf.")
@PAGE
@JSON
def compare(
    data: Path,
    target: str,
    methods: tuple[str, ...],
    plot: Path | None,
    page: Path | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Cross-validate the paper's methods on DATA, best first.

    All of them are the paper's network and nothing else, as with fit --plain. What fills gaps and
    which categories there are is learnt from all rows, but not the target.
    """
    check_drawn([plot, page], data)
    x, y, _ = _training_table(data, target)
    if how["folds"] > len(y):
        raise click.UsageError(f"--folds: {how['folds']} folds need as many rows, got {len(y)}")
    # Not at the top: it loads torch, for which a mistake in a table need not wait.
    from softbins.report.comparison import score_table
    from softbins.report.evaluation import compared, comparison_page, draw_comparison

    networks = max(len(set(methods) - {"linear"}), 1)
    with _progress() as update:
        scores = compared(x, y, methods, lambda n, text: update(n / networks, text, None), **how)
    about = {"rows": len(y), "features": x.shape[1], **how}
    if plot is not None:
        draw_comparison(scores, plot, picture_format(plot.name))
    if page is not None:
        tables.write_text(comparison_page(scores, data.name, about), page)
    summary = about | {"results": scores}
    click.echo(json_text(summary) if as_json else score_table(scores))


@main.command(epilog=examples("info houses.model", "info houses.model --json"))
@MODEL
@JSON
def info(model: Path, as_json: bool) -> None:
    """Show what a saved MODEL is and how it was trained."""
    from softbins.report.evaluation import description

    fitted = softbins.load(model)
    _show({"model": str(model)} | description(fitted), fitted, as_json)


# Tables in, models, tables out


@contextmanager
def _about(path: Path) -> Iterator[None]:
    """Puts the file's name before what is wrong with its columns."""
    try:
        yield
    except TableError as error:
        raise TableError(f"{path}: {error}") from error


def _training_table(path: Path, target: str) -> tuple[Any, Array, list[str]]:
    frame = tables.read_table(path)
    with _about(path):
        return tables.features_and_target(frame, target)


def _trained(x: Any, y: Array, options: dict[str, Any]) -> Any:
    with _progress(options["max_seconds"]) as update:

        def show(epoch: int, epochs: int, seconds: float, summary: dict[str, float]) -> None:
            errors = [f"{k.replace('_', ' ')} {v:.4g}" for k, v in summary.items() if "mae" in k]
            update(epoch / epochs, "  ".join([f"epoch {epoch}/{epochs}", *errors]), seconds)

        model = estimator(options, progress=show).fit(x, y)
    # The bar is over, and a function could not be saved.
    return model.set_params(progress=False)


def _table_for(model: Any, path: Path) -> Any:
    # A label such as 1.50 is read as it was for training, among others that are no numbers.
    columns = zip(model.columns_.names or [], model.columns_.kinds, strict=False)
    return tables.read_table(path, [name for name, kind in columns if kind == "category"])


def _predicted(model: Any, data: Path, **how: Any) -> Any:
    from softbins.report.evaluation import predictions

    frame = _table_for(model, data)
    with _about(data):
        x = tables.inputs(frame, model.columns_.names, model.columns_.kinds)
    return optional_import("pandas").DataFrame(predictions(model, x, **how))


def _evaluated(model: Any, data: Path, target: str, coverage: float) -> Any:
    from softbins.report.evaluation import evaluate

    frame, columns = _table_for(model, data), model.columns_
    with _about(data):
        if target in (columns.names or []):
            raise TableError(f"the model predicts from {target!r}; name the column it predicts")
        y = tables.target_of(frame, target)
        x = tables.inputs(frame.drop(columns=target), columns.names, columns.kinds)
    return evaluate(model, x, y, coverage)


# What is shown


@contextmanager
def _progress(limit: float | None = None) -> Iterator[Update]:
    """A bar on stderr with the time left, if somebody watches; `limit` is the time at most.

    It hears the share that is done, what to show, and how long it took, if not all the time.
    """
    if not sys.stderr.isatty():
        yield lambda share, text, seconds: None
        return
    rich, console = (
        optional_import("rich.progress"),
        optional_import("rich.console").Console(stderr=True),
    )
    columns = rich.BarColumn(), "{task.description}", "{task.fields[left]}"
    with rich.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("training", total=1.0, left="")

        def update(share: float, text: str, seconds: float | None) -> None:
            left = _time_left(share, seconds or bar.tasks[0].elapsed or 0.0, limit)
            bar.update(task, completed=share, description=text, left=left)

        yield update


def _time_left(share: float, seconds: float, limit: float | None) -> str:
    left = seconds / share - seconds
    if limit is not None:
        left = min(left, max(limit - seconds, 0.0))
    minutes, rest = divmod(round(left), 60)
    return f"{minutes}:{rest:02d} left"


def _show(summary: Row, model: Any, as_json: bool) -> None:
    from softbins.tabular.validation import training_summary

    summary = summary | training_summary(model)
    known = {name.replace("_", " "): value for name, value in summary.items() if value is not None}
    rows = [[name, shown(value)] for name, value in known.items()]
    click.echo(json_text(summary) if as_json else aligned(rows))
