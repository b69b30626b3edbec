"""The program `softbins`: its commands together, and how they end when something is wrong.

Results go to stdout, everything else to stderr. What is wrong with the input is said in one line
with exit code 2. Libraries are imported where they are used, so that `softbins --help` does not
wait for torch.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import Any, NoReturn

try:
    import click
except ImportError as error:
    # The command exists even where the extra that it needs is not installed.
    print('softbins: click is not installed: pip install "softbins[cli]"', file=sys.stderr)
    raise SystemExit(2) from error

from softbins.cli import INTERRUPTED, INTERRUPTED_CODE
from softbins.cli.options import examples

# Each is a function of its own name in a module of that name in `softbins.cli.commands`.
COMMANDS = (
    *("compare", "evaluate", "explain", "export", "fit"),
    *("info", "look", "paper", "predict", "serve"),
)
BAD_INPUT = 2


class Interrupted(click.ClickException):
    """Ctrl-C, for which click itself would exit with code 1."""


class Program(click.Group):
    """The commands together: every failure that is not a bug in softbins ends in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command by its name, imported on first use."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(
            import_module(f"softbins.cli.commands.{cmd_name}"), cmd_name
        )
        return command

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Read the arguments, before a command is found."""
        try:
            return super().make_context(*args, **extra)
        except KeyboardInterrupt:
            raise Interrupted(INTERRUPTED) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted(INTERRUPTED) from None
        except (MemoryError, RuntimeError) as error:
            if _is_lack_of_memory(error):
                advice = "use fewer bins, members, hidden units or rows"
                raise click.ClickException(f"not enough memory; {advice}") from error
            raise

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run the program and exit: with 0, 2 for bad input, or 130 for Ctrl-C."""
        settings = {"prog_name": "softbins", **extra, "standalone_mode": False}
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                code = super().main(*args, **settings)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(BAD_INPUT)
        except (click.ClickException, click.Abort, ValueError, OSError, ImportError) as error:
            click.echo(f"softbins: {_one_line(error)}", err=True)
            interrupted = isinstance(error, (Interrupted, click.Abort))
            sys.exit(INTERRUPTED_CODE if interrupted else BAD_INPUT)
        sys.exit(code if isinstance(code, int) else 0)


def _is_lack_of_memory(error: Exception) -> bool:
    """Whether an allocation failed, for which torch raises a mere RuntimeError on a CPU."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return any(words in str(error) for words in ("DefaultCPUAllocator", "std::bad_alloc"))


def _one_line(error: Exception) -> str:
    """What an error says, in one line."""
    text = str(error) or type(error).__name__
    if isinstance(error, click.Abort):
        text = INTERRUPTED
    elif isinstance(error, click.ClickException):
        text = error.format_message()
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(part.strip() for part in text.splitlines())


def _show_warning(message: Warning | str, *_where: Any, **_more: Any) -> None:
    """Print a warning without the line of code that gave it, which users do not know."""
    click.echo(f"softbins: warning: {message}", err=True)


@click.group(
    "softbins",
    cls=Program,
    epilog=examples(
        "look houses.csv",
        "fit houses.csv --target price -o houses.model",
        "predict houses.model new.csv -o predicted.csv --interval 0.9",
        "predict houses.model size=80 town=A",
        "evaluate houses.model sold.csv --page houses.html",
        "compare houses.csv --target price --plot errors.svg",
    ),
)
@click.version_option(package_name="softbins")
def main() -> None:
    """Regression that predicts a histogram instead of a number.

    Tables are .csv, .tsv, .xlsx, .parquet, .pq, .feather or .json files, also with .gz or .zip, or
    - for standard input, with a header. Features are numbers, true and false, dates and times, or
    text that names categories, and may have empty cells; the target is numbers.
    """
