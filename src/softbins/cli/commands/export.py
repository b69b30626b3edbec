"""The command `softbins export`: a model in a file becomes an ONNX graph in another."""

from __future__ import annotations

from pathlib import Path

import click

import softbins
from softbins.cli.options import MODEL, PROBABILITY, examples, new_file, option, probabilities
from softbins.cli.output_files import check_not_an_input, check_onnx_name


@click.command(
    epilog=examples(
        "export houses.model houses.onnx",
        "export houses.model houses.onnx --quantiles 0.05,0.5,0.95 --coverage 0.8",
    )
)
@MODEL
@click.argument("path", metavar="OUT", callback=new_file(check_onnx_name))
@option(
    "--quantiles",
    default="0.1,0.5,0.9",
    callback=probabilities,
    help="Levels of the output quantiles.",
)
@option("--coverage", type=float, default=0.9, callback=PROBABILITY, help="Share in the intervals.")
def export(model: Path, path: Path, quantiles: tuple[float, ...], coverage: float) -> None:
    """Write a saved MODEL as an ONNX graph, which runs without Python.

    Its inputs are the columns, its outputs mean, quantiles and an interval.
    """
    check_not_an_input(path, model)
    softbins.load(model).to_onnx(path, quantiles, coverage)
    click.echo(f"wrote {path}", err=True)
