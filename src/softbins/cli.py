"""The command line: fit, predict, compare and info, for tables in files, and the paper.

Results go to stdout, everything else to stderr. What is wrong with the input is said in one line
with exit code 2, if possible before training starts. Libraries load where they are used, because
`softbins --help` need not wait for torch.
"""

from __future__ import annotations

import io
import math
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import softbins
import softbins.tables as tables
from softbins.tables import Array, TableError, library

try:
    import click
except ImportError as error:
    # The command exists even where the extra that it needs was not asked for.
    print('softbins: click is not installed: pip install "softbins[cli]"', file=sys.stderr)
    raise SystemExit(2) from error

from softbins.options import (
    CHOSEN,
    COUNT,
    DATA,
    JSON,
    METHODS,
    MODEL,
    OBJECTIVES,
    PICTURE,
    POSITIVE,
    SHARE,
    SIZES,
    TABLE,
    TARGET,
    epochs,
    examples,
    levels,
    new_file,
    option,
    picture_format,
    seed,
)

Row = dict[str, Any]
Update = Callable[[float, str], None]


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
            from softbins.paper.commands import paper

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


# Commands


@click.group(
    "softbins",
    cls=_Program,
    epilog=examples(
        "fit houses.csv --target price -o houses.model",
        "predict houses.model new.csv -o predicted.csv --interval 0.9",
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
        "fit houses.parquet --target price -o houses.model --members 5 --max-seconds 60",
        "fit houses.csv --target price -o l2.model --objective l2 --hidden 128,128 --json",
    )
)
@DATA
@TARGET
@click.option("-o", "output", metavar="MODEL", required=True, callback=new_file(), help="The file.")
@option("--objective", type=click.Choice(OBJECTIVES), default="hl-gaussian")
@option("--hidden", default="64,64,64,64", callback=SIZES, help="Sizes of the hidden layers.")
@option("--bins", type=click.IntRange(min=2), default=100, help="Bins of the histogram.")
@option("--sigma", default=1.0, callback=POSITIVE, help="Blur of the targets, in bins.")
@option("--members", type=COUNT, default=1, help="Networks to average.")
@epochs("max_epochs")
@option("--max-seconds", type=float, callback=POSITIVE, help="Time to train, at most.")
@option("--early-stopping", is_flag=True, help="Hold out a tenth, keep the best epoch on it.")
@seed("random_state")
@JSON
def fit(data: Path, target: str, output: Path, as_json: bool, **options: Any) -> None:
    """Train a model on DATA and save it."""
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
@option("--quantiles", callback=levels, help="Add quantiles, such as 0.1,0.5,0.9.")
@option("--output", type=click.Choice(["mean", "median", "mode"]), default="mean")
def predict(model: Path, data: Path, path: str | Path, **options: Any) -> None:
    """Predict every row of DATA with a saved MODEL.

    The columns are found by name, in any order; columns that the model does not know are ignored.
    """
    tables.check_different(path, model, data)
    result = _predicted(softbins.load(model), data, **options)
    if path == "-":
        click.echo(tables.csv_text(result), nl=False)
    else:
        tables.write_table(result, path)
        click.echo(f"wrote {len(result)} predictions to {path}", err=True)


@main.command(
    epilog=examples(
        "compare houses.csv --target price",
        "compare houses.csv --target price --methods linear,l2,hl-gaussian --folds 10",
        "compare houses.csv --target price --epochs 300 --plot errors.svg --json",
    )
)
@DATA
@TARGET
@option("--folds", type=click.IntRange(min=2), default=5)
@option("--methods", default=",".join(METHODS), callback=CHOSEN, help="What to compare.")
@epochs("epochs")
@seed("seed")
@option("--plot", metavar="FILE", callback=PICTURE, help="Draw the MAE: .svg, .png or .pdf.")
@JSON
def compare(
    data: Path, target: str, methods: tuple[str, ...], plot: Path | None, as_json: bool, **how: Any
) -> None:
    """Cross-validate the paper's methods on DATA, best first.

    What fills gaps and which categories there are is learnt from all rows, but not the target.
    """
    if plot is not None:
        tables.check_different(plot, data)
        library("matplotlib", "plots")
    x, y, _ = _training_table(data, target)
    if how["folds"] > len(y):
        raise click.UsageError(f"--folds: {how['folds']} folds need as many rows, got {len(y)}")
    scores = _scores(x, y, methods, how)
    if plot is not None:
        _draw(scores, plot)
    summary = {"rows": len(y), "features": x.shape[1], **how, "results": scores}
    click.echo(tables.json_text(summary) if as_json else tables.score_table(scores))


@main.command(epilog=examples("info houses.model", "info houses.model --json"))
@MODEL
@JSON
def info(model: Path, as_json: bool) -> None:
    """Show what a saved MODEL is and how it was trained."""
    fitted = softbins.load(model)
    bins = getattr(fitted, "bins_", None)
    summary = {
        "model": str(model),
        "objective": fitted.objective,
        "bins": bins and {"count": bins.count, "low": bins.low, "high": bins.high},
        "features": fitted.n_features_in_,
        "names": fitted.columns_.names or [],
        "kinds": fitted.columns_.kinds,
        "hidden": list(fitted.hidden),
        "members": fitted.members,
    }
    _show(summary, fitted, as_json)


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
    from softbins.regressor import HistogramRegressor, NeuralRegressor

    kind: Any = NeuralRegressor
    if options["objective"] == "hl-gaussian":
        # Its bins leave the targets room; the paper's do not.
        kind, options = HistogramRegressor, {k: v for k, v in options.items() if k != "objective"}
    with _progress(options["max_epochs"], options["max_seconds"]) as update:

        def show(epoch: int, epochs: int, _seconds: float, summary: dict[str, float]) -> None:
            errors = [f"{k.replace('_', ' ')} {v:.4g}" for k, v in summary.items() if "mae" in k]
            update(epoch, "  ".join([f"epoch {epoch}/{epochs}", *errors]))

        model = kind(**options, progress=show).fit(x, y)
    # The bar is over, and a function could not be saved.
    return model.set_params(progress=False)


def _inputs(model: Any, path: Path) -> Any:
    """The columns that the model knows, by name, or by position if it has learnt no names."""
    names, kinds = model.columns_.names, model.columns_.kinds
    # A label such as 1.50 is read as it was for training, among others that are no numbers.
    text = [name for name, kind in zip(names or [], kinds, strict=False) if kind == "category"]
    frame = tables.read_table(path, text)
    with _about(path):
        if names is not None:
            return tables.features(frame, names, kinds)
        if len(frame.columns) != len(kinds):
            need = f"the model needs {len(kinds)} columns, without names"
            raise TableError(f"{need}; the table has {len(frame.columns)}")
        # An array, because scikit-learn warns of names that training did not have.
        return tables.features(frame, list(frame.columns), kinds).to_numpy()


def _predicted(
    model: Any, data: Path, interval: float | None, quantiles: tuple[float, ...], output: str
) -> Any:
    x = _inputs(model, data)
    columns = {"prediction": model.predict(x, output=output)}
    if interval is not None:
        ends = model.predict_interval(x, coverage=interval)
        columns |= {f"low_{interval:g}": ends[:, 0], f"high_{interval:g}": ends[:, 1]}
    if quantiles:
        values = model.predict_quantiles(x, list(quantiles))
        columns |= {f"quantile_{q:g}": values[:, i] for i, q in enumerate(quantiles)}
    return library("pandas").DataFrame(columns)


def _scores(x: Any, y: Array, methods: tuple[str, ...], how: dict[str, Any]) -> list[Row]:
    """Every method's errors, best first, and last those that diverged."""
    from softbins.columns import Columns
    from softbins.comparison import cross_validate

    x, scores = Columns.fit(x).transform(x), list[Row]()
    # Linear regression comes last: it takes no time, and would make the time left look short.
    order = sorted(methods, key=lambda method: method == "linear")
    with _progress(max(len(set(order) - {"linear"}), 1)) as update:
        for method in order:

            def show(epoch: int, epochs: int, *_: Any, name: str = method) -> None:
                update(len(scores) + epoch / epochs, f"{name} ({len(scores) + 1}/{len(order)})")

            scores.append(_summary(method, cross_validate(x, y, method, progress=show, **how)))
    return sorted(scores, key=lambda row: (math.isnan(row["mae"]), row["mae"]))


def _summary(method: str, folds: list[dict[str, float]]) -> Row:
    """Mean and standard error over the folds."""
    result: Row = {"method": method}
    for name in ("mae", "rmse"):
        values = [fold[name] for fold in folds]
        # The errors of a method that diverged have no spread.
        spread = statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan
        result[name] = statistics.fmean(values)
        result[f"{name}_stderr"] = spread / math.sqrt(len(values))
    return result | {"folds": folds}


# What is shown


@contextmanager
def _progress(total: float, limit: float | None = None) -> Iterator[Update]:
    """A bar on stderr with the time left, if somebody watches; `limit` is the time at most."""
    if not sys.stderr.isatty():
        yield lambda done, text: None
        return
    rich, console = library("rich.progress"), library("rich.console").Console(stderr=True)
    columns = rich.BarColumn(), "{task.description}", "{task.fields[left]}"
    with rich.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("training", total=total, left="")

        def update(done: float, text: str) -> None:
            left = _time_left(done / total, bar.tasks[0].elapsed or 0.0, limit)
            bar.update(task, completed=done, description=text, left=left)

        yield update


def _time_left(share: float, seconds: float, limit: float | None) -> str:
    left = seconds / share - seconds
    if limit is not None:
        left = min(left, max(limit - seconds, 0.0))
    minutes, rest = divmod(round(left), 60)
    return f"{minutes}:{rest:02d} left"


def _show(summary: Row, model: Any, as_json: bool) -> None:
    from softbins.models import training_summary

    summary = summary | training_summary(model)
    known = {name.replace("_", " "): value for name, value in summary.items() if value is not None}
    rows = [[name, tables.shown(value)] for name, value in known.items()]
    click.echo(tables.json_text(summary) if as_json else tables.aligned(rows))


def _draw(scores: list[Row], path: Path) -> None:
    """A picture of every method's MAE with its standard error, best on top."""
    from softbins.storage import write_whole

    size = (6.0, 1.0 + 0.35 * len(scores))
    figure = library("matplotlib.figure", "plots").Figure(size, layout="constrained")
    axes, buffer = figure.subplots(), io.BytesIO()
    means, names = [row["mae"] for row in scores], [row["method"] for row in scores]
    axes.errorbar(means, names, xerr=[row["mae_stderr"] for row in scores], fmt="o", capsize=3)
    axes.invert_yaxis()
    axes.set_xlabel("mean absolute error over the folds, with its standard error")
    figure.savefig(buffer, format=picture_format(path.name))
    write_whole(path, buffer.getvalue())
