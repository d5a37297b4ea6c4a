"""`sluice doctor`: each component, what is missing, and how to get it."""

import asyncio
from typing import TYPE_CHECKING

import typer

from sluice.cli import output
from sluice.cli.options import Json

if TYPE_CHECKING:
    from sluice.diagnosis import Finding


def doctor(json_: Json = False) -> None:
    """Look at each component; exit status 1 if one is missing that the stack can't do without."""
    from sluice.diagnosis import examine, look_for_stack  # noqa: PLC0415
    from sluice.settings import load_settings  # noqa: PLC0415
    from sluice.telemetry import configure  # noqa: PLC0415

    settings = load_settings()
    configure("error")
    findings = [*examine(settings), asyncio.run(look_for_stack(settings))]
    if json_:
        output.lines(findings)
    else:
        output.table(
            ("component", "state", "found", "what to do"),
            (
                (each.component, _state(each), each.found, None if each.ok else each.remedy)
                for each in findings
            ),
            empty="",
        )
    if any(each.required and not each.ok for each in findings):
        raise typer.Exit(1)


def _state(finding: "Finding") -> str:
    if finding.ok:
        return "ok"
    return "missing" if finding.required else "optional"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)
