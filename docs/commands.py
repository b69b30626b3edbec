"""Write docs/commands.md from what the commands say with `--help`: `make docs`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from softbins.cli.program import main

PAGE = Path(__file__).parent / "commands.md"
WIDTH = 90
HEAD = """# Command line

[Tables in files](files.md), without any code: `pip install -c constraints.txt ".[cli,plots]"`.
Written by `make docs` from what each command says with `--help`.

```sh
softbins look houses.csv
softbins fit houses.csv --target price -o houses.model --preset fast
softbins predict houses.model size=80 town=A
softbins predict houses.model new.csv -o predicted.csv --interval 0.9 --quantiles 0.1,0.5,0.9
softbins info houses.model
softbins evaluate houses.model sold.csv --page houses.html
softbins explain houses.model new.csv --row 3 --background houses.csv
softbins compare houses.csv --target price --page methods.html
softbins export houses.model houses.onnx --coverage 0.9
softbins serve houses.model --port 8000
```

`fit` does what [`HistogramRegressor`](api/estimators.md#softbins.HistogramRegressor) does, and
leaves to it what is not given; `--plain` is `as_in_paper()`, and `--objective` takes any other of
the paper's. `predict --raw` writes intervals that are not calibrated. `info` tells
[where a model comes from](provenance.md) and what it has become: its bins and how far they may move
a mean, how many networks and the share of the trees.

`evaluate` prints the MAE of the predicted means and medians, RMSE, R², CRPS, NLL, and how many
targets the intervals cover and how wide they are, above the errors on rows that training held out,
which `fit` prints as well, and a verdict in words. A model that predicts numbers, such as one with
`--objective l2`, has MAE, RMSE and R² only. Targets where the density is zero, most of them outside
the bins, make the NLL infinite; their number is said on stderr and on the page.
[A table](table.md#one-page-about-the-model) says what is on the page and how the verdict is found.

`compare` cross-validates `softbins` and `softbins-fast`, which are what `fit` fits, boosted trees,
a linear regression, a constant and the paper's plain networks on the same folds. Its `--json` has
`rows`, `features`, the settings, and `results`, smallest MAE first: `method`, `kind`, `mae`, `rmse`
and `crps` with their standard errors (`mae_stderr` and so on), the `coverage` of 90% intervals
(null without them), the processor's `seconds` for one fit, `undertrained` (null if not known), and
`folds` with the scores of each. `export` writes a model for onnxruntime; [ONNX](deploy.md#onnx)
tells what goes in and what comes out. `serve` answers requests for predictions until it is told to
end: [Serve a model](serve.md).

`explain` (`softbins[explain]`) prints what each column adds to the mean of a row and to the width
of its interval, as bars; `-o` writes it as a table and `--plot` as a picture.

Results go to stdout, everything else to stderr. The exit code is 0, or 2 if something is wrong with
the input, which is said in one line, or 130 after Ctrl-C.
"""


def commands(
    command: click.Command = main, parent: click.Context | None = None
) -> Iterator[click.Context]:
    """The program, and after every group its commands."""
    name = command.name or "softbins"
    context = click.Context(
        command, parent, name, terminal_width=WIDTH, max_content_width=WIDTH, color=False
    )
    yield context
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None:
                yield from commands(found, context)


def section(context: click.Context) -> str:
    """One command: its name, and what it says about itself."""
    return f"## {context.command_path}\n\n```text\n{context.get_help()}\n```\n"


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join([HEAD, *map(section, commands())])


if __name__ == "__main__":
    PAGE.write_text(page())
    print("wrote docs/commands.md")
