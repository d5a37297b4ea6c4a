"""`sluice up` and `sluice demo`: a whole stack in one process."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli import output
from sluice.cli.options import Json

if TYPE_CHECKING:
    from sluice.stack import Stack


def up(json_: Json = False) -> None:
    """Run the local stack until Ctrl-C: Temporal, workers, bridge and API on one state folder."""
    from sluice.settings import load_settings  # noqa: PLC0415
    from sluice.stack import run_up  # noqa: PLC0415

    settings = load_settings()

    def announce(stack: "Stack") -> None:
        addresses = {
            "api": stack.access.address,
            "temporal": stack.temporal.address,
            "namespace": stack.temporal.namespace,
        }
        if json_:
            output.lines([{**addresses, "state": str(settings.state.absolute())}])
        else:
            output.fields(
                (*addresses.items(), ("state", settings.state.absolute()), ("stop with", "Ctrl-C"))
            )
        output.flush()

    asyncio.run(run_up(settings, announce))


def demo(
    corpus: Annotated[
        Path | None, typer.Option(help="Another folder with documents/ and MANIFEST.json.")
    ] = None,
) -> None:
    """The main job, told and checked step by step, on the documents shipped for it."""
    from sluice.demo import FOLDER, run_demo  # noqa: PLC0415
    from sluice.demo_story import CORPUS  # noqa: PLC0415

    def say(line: str) -> None:
        output.say(line)
        output.flush()

    asyncio.run(run_demo(say, FOLDER, corpus or CORPUS))


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(up)
    app.command()(demo)
