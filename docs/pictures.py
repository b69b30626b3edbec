"""Run the Python blocks of the pages and keep the pictures that they save: `make docs`.

A block of docs/NAME.md that saves day.svg makes docs/figures/NAME-day.svg. The tests run the same
blocks by the same function.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs" / "figures"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Text stays text, and the same picture has the same names inside.
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "softbins"}


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in one language, in their order."""
    return [code for found, code in BLOCK.findall(page.read_text()) if found == language]


def run(page: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run a page's Python blocks; after each, its code and all names that there are by then.

    The blocks share their names, as they do for somebody who pastes them in turn.
    """
    import matplotlib
    import torch

    matplotlib.use("agg")
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    for code in blocks(page, "python"):
        with matplotlib.rc_context(STYLE):
            exec(compile(code, f"{page.name}: {code.splitlines()[0]}", "exec"), names)
        yield code, names


def saved(page: Path, folder: Path) -> dict[str, str]:
    """The pictures that a page's blocks have saved in a folder, by their names in docs/figures."""
    return {
        f"{page.stem}-{path.name}": without_metadata(path.read_text())
        for path in sorted(folder.glob("*.svg"))
    }


def without_metadata(svg: str) -> str:
    """A picture without what changes from one day or version to the next."""
    return re.sub(r" *<metadata>.*?</metadata>\n", "", svg, flags=re.DOTALL)


def draw(page: Path) -> dict[str, str]:
    """The pictures of a page, drawn anew."""
    with tempfile.TemporaryDirectory() as folder, _inside(folder):
        for _ in run(page):
            pass
        return saved(page, Path(folder))


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


if __name__ == "__main__":
    for name in ("branches.svg", "moving_support.svg", "scale.svg"):
        shutil.copy(ROOT / "results" / name, FIGURES)
    for page in sorted((ROOT / "docs").glob("*.md")):
        if any("savefig" in code for code in blocks(page, "python")):
            pictures = draw(page)
            for name, svg in pictures.items():
                (FIGURES / name).write_text(svg)
            print("wrote", ", ".join(pictures))
