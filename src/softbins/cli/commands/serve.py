"""The command `softbins serve`: a model in a file answers requests over HTTP."""

from __future__ import annotations

from pathlib import Path

import click

import softbins
from softbins.cli.options import MODEL, examples, option


@click.command(epilog=examples("serve houses.model", "serve houses.model --host 0.0.0.0 --port 80"))
@MODEL
@option("--host", default="127.0.0.1", help="Address; 0.0.0.0 is every one of this machine.")
@option("--port", type=click.IntRange(0, 65535), default=8000, help="0 takes any free one.")
def serve(model: Path, host: str, port: int) -> None:
    """Answer requests for predictions of a saved MODEL, until SIGTERM or Ctrl-C.

    POST /predict takes rows as JSON, /docs tells how, and / is a form to try one row by hand.
    There is no password and no encryption: that is for a proxy in front of it.
    """
    from softbins.serve import server
    from softbins.serve.app import make_app

    app = make_app(softbins.load(model), model.name)
    with server.listen(host, port) as listener:
        where = f"{model} at {server.address_of(listener)}"
        server.run(app, listener, when_ready=lambda: click.echo(where))
