"""What parsing makes of a file, as `sluice parse` shows it."""

import time
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from contracts.documents import Chunk
from contracts.errors import SluiceError
from contracts.ports import Parser


class ParseReport(BaseModel):
    """One file."""

    file: str
    outcome: Literal["ok", "failed"]
    error: str | None = None  # class of the error tree
    message: str | None = None
    retryable: bool = False
    parser: str | None = None
    pages: int = 0
    chunks: tuple[Chunk, ...] = ()
    seconds: float = 0.0


async def report(path: Path, parser: Parser) -> ParseReport:
    """Parse one file; a failure is an answer."""
    started = time.perf_counter()
    try:
        document = await parser.chunk(path, path.name, None)
    except SluiceError as error:
        return ParseReport(
            file=str(path),
            outcome="failed",
            error=error.name,
            message=str(error),
            retryable=error.retryable,
            seconds=round(time.perf_counter() - started, 3),
        )
    return ParseReport(
        file=str(path),
        outcome="ok",
        parser=document.parser,
        pages=document.pages,
        chunks=document.chunks,
        seconds=round(time.perf_counter() - started, 3),
    )
