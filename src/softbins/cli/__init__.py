"""The command line: `softbins fit`, `predict`, `evaluate`, `compare`, `info` and `paper`."""

from softbins.cli.program import main

__all__ = ["main"]
