"""Files that commands write: whether they can be, checked before the work that fills them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from softbins._core.extras import optional_import
from softbins._core.files import write_whole
from softbins._core.model_content import is_model_file

PICTURE_SUFFIXES = (".svg", ".png", ".pdf")
PAGE_SUFFIXES = (".html", ".htm")
ONNX_SUFFIX = ".onnx"


def check_new_file(path: str | Path) -> None:
    """Raise unless a file can be written there."""
    folder = Path(path).parent
    if Path(path).is_dir():
        raise ValueError(f"{str(path)!r} is a folder; name a file in it")
    if not folder.is_dir():
        raise ValueError(f"no folder {str(folder)!r}; make it first")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"may not write into folder {str(folder)!r}; choose another")
    if Path(path).exists() and not os.access(path, os.W_OK):
        raise ValueError(f"{str(path)!r} is write-protected; choose another file")


def check_not_an_input(output: str | Path, *inputs: str | Path) -> None:
    """Raise if writing the output would replace a file that is about to be read."""
    for path in inputs:
        if os.path.exists(path) and os.path.exists(output) and os.path.samefile(path, output):
            raise ValueError(f"{output}: is read as well; choose another file for the result")


def check_model_output(output: str | Path, force: bool, *inputs: str | Path) -> None:
    """Raise if a model would replace a file that is no model, unless by `force`, or an input."""
    check_not_an_input(output, *inputs)
    if force or not os.path.exists(output):
        return
    if not is_model_file(output):
        way_out = "choose another file, or replace it with --force"
        raise ValueError(f"{output}: is there and is no softbins model; {way_out}")


def picture_format(name: str) -> str:
    """The format of the picture that a file's suffix asks for, such as "svg"."""
    suffix = Path(name).suffix.lower()
    if suffix not in PICTURE_SUFFIXES:
        known = ", ".join(PICTURE_SUFFIXES)
        raise ValueError(f"{name}: unknown kind of picture; use one of {known}")
    return suffix[1:]


def check_page_name(name: str) -> None:
    """Raise unless a file's suffix says that it is an HTML page."""
    if Path(name).suffix.lower() not in PAGE_SUFFIXES:
        known = " or ".join(PAGE_SUFFIXES)
        raise ValueError(f"{name}: a page is written to a file that ends in {known}")


def check_svg_name(name: str) -> None:
    """Raise unless a file's suffix says that it is an SVG picture."""
    if Path(name).suffix.lower() != ".svg":
        raise ValueError(f"{name}: this picture is written to a file that ends in .svg")


def check_onnx_name(name: str) -> None:
    """Raise unless a file's suffix says that it is an ONNX graph."""
    if Path(name).suffix.lower() != ONNX_SUFFIX:
        raise ValueError(f"{name}: a graph is written to a file that ends in {ONNX_SUFFIX}")


def check_drawings(paths: Iterable[Path | None], *inputs: Path) -> None:
    """Raise if a picture or page lacks a library or would replace an input; None is not written."""
    for path in filter(None, paths):
        check_not_an_input(path, *inputs)
        if path.suffix.lower() in PAGE_SUFFIXES:
            optional_import("jinja2", "plots")
        optional_import("matplotlib", "plots")


def write_text(text: str, path: str | Path) -> None:
    """Write text such as a page, whole or not at all."""
    write_whole(Path(path), text.encode())
