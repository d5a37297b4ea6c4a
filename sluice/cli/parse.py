"""`sluice parse`: what parsing makes of files, without any source."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli import output
from sluice.cli.options import Json

if TYPE_CHECKING:
    from documents.parsing_report import ParseReport
    from sluice.settings import Settings

Place = Annotated[Path, typer.Argument(help="A file, or a folder with all that is below it.")]


def parse(place: Place, json_: Json = False) -> None:
    """Parse and chunk files; exit status 1 if one of them failed."""
    from sluice.settings import load_settings  # noqa: PLC0415
    from sluice.telemetry import configure  # noqa: PLC0415

    settings = load_settings()
    configure("error")
    files = _files(place)
    if asyncio.run(_parse_all(settings, files, as_json=json_)):
        raise typer.Exit(1)


def _files(place: Path) -> list[Path]:
    from contracts.errors import ConfigurationError  # noqa: PLC0415

    if place.is_file():
        return [place]
    if not place.exists():
        raise ConfigurationError(f"there is no file or folder {place}")
    if not place.is_dir():
        raise ConfigurationError(f"{place} is neither a file nor a folder: save it as a file first")
    files = sorted(path for path in place.rglob("*") if path.is_file())
    if not files:
        raise ConfigurationError(f"there is no file in {place}")
    return files


async def _parse_all(settings: "Settings", files: Sequence[Path], *, as_json: bool) -> int:
    """Show every report as it comes; answers how many files failed."""
    failed = chunks = 0
    async for report in _reports(settings, files):
        failed += report.outcome == "failed"
        chunks += len(report.chunks)
        if as_json:
            output.lines([report])
        else:
            output.say(_line(report))
        output.flush()
    if not as_json and len(files) > 1:
        output.say(f"{len(files)} files, {failed} failed, {chunks} chunks")
    return failed


async def _reports(settings: "Settings", files: Sequence[Path]) -> AsyncIterator["ParseReport"]:
    """The reports in the order of the files, a few files at a time."""
    from documents.parsers.recognition import find  # noqa: PLC0415
    from documents.parsers.sandbox import SandboxedParser, SandboxLimits  # noqa: PLC0415
    from documents.parsing_report import report  # noqa: PLC0415

    children = min(settings.parser_children, len(files))
    limits = SandboxLimits(
        memory=settings.parser_memory_bytes, seconds=settings.parser_seconds, children=children
    )
    parser = SandboxedParser(limits, recognition=find(settings.recognition_languages))
    running: deque[asyncio.Task[ParseReport]] = deque()
    try:
        for file in files:
            running.append(asyncio.create_task(report(file, parser)))
            if len(running) > children:
                yield await running.popleft()
        while running:
            yield await running.popleft()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await parser.close()


def _line(report: "ParseReport") -> str:
    if report.outcome == "failed":
        return f"failed  {report.file}  {report.error}: {report.message}"
    pages = f", {report.pages} pages" if report.pages else ""
    found = f"{len(report.chunks)} chunks{pages}, {report.parser}, {report.seconds:.2f} s"
    return f"ok      {report.file}  {found}"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(parse)
