"""The command line: `softbins look`, `fit`, `predict`, `evaluate`, `compare`, `info`, `paper`."""

from softbins.cli.program import main

__all__ = ["main"]
