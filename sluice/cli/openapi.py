"""`sluice openapi`: the document of the HTTP API, for those who talk to it without us."""

import typer

from sluice.cli import output
from sluice.cli.options import Json


def openapi(*, json_: Json = False) -> None:  # noqa: ARG001 - it is JSON in any case
    """Print the OpenAPI document of the HTTP API; no stack has to run."""
    from console.api import describe  # noqa: PLC0415

    output.document(describe())


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(openapi)
