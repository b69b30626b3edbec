"""The command line: `softbins look`, `fit`, `predict`, `evaluate`, `compare`, `info`, `paper`.

Nothing is imported here but by `main`, so that Ctrl-C finds its handler from the first moment on.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, which would be an import
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

INTERRUPTED, INTERRUPTED_CODE = "interrupted", 130


def main(arguments: list[str] | None = None) -> None:
    """Run the program and exit; Ctrl-C ends it with one line and exit code 130 at any moment."""
    try:
        _catch_interrupts()
        from softbins.cli.program import main as program

        program(arguments)
    except KeyboardInterrupt:
        _end_interrupted()
    finally:
        _ignore_interrupts()


def _catch_interrupts() -> None:
    """Take Ctrl-C over, unless the process was started to ignore it or has a handler already."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)


def _ignore_interrupts() -> None:
    """The work is done or given up: nothing is left but the interpreter's own end."""
    import signal

    if signal.getsignal(signal.SIGINT) is _interrupted:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Raise `KeyboardInterrupt`, or in the middle of an import end at once.

    Libraries turn an exception inside their import into others, print it, or swallow it.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _end_interrupted()
        frame = frame.f_back
    raise KeyboardInterrupt


def _end_interrupted() -> NoReturn:
    """Say so, and end without the interpreter's farewell, which a second Ctrl-C would interrupt."""
    import os

    show_cursor = b"\x1b[?25h" if os.isatty(2) else b""  # a progress bar may have hidden it
    os.write(2, show_cursor + f"softbins: {INTERRUPTED}\n".encode())
    os._exit(INTERRUPTED_CODE)
