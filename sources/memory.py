"""Documents in a dictionary, for tests and trials; not an entry point."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from pathlib import Path

from contracts.errors import DocumentChanged, DocumentGone, SluiceError
from contracts.sources import DocumentStat, SourceConfig, StagedDocument
from sources.content import ContentFile, check_size
from sources.selection import selects

PAGE = 1_000  # documents


class MemorySource:
    """A source that tests fill, change and break.

    `documents` maps keys to content; `failures` maps keys to the error that a fetch raises; the
    error under the key "" is raised by listings and looks.
    """

    def __init__(self, config: SourceConfig, documents: dict[str, bytes] | None = None) -> None:
        self.config = config
        self.documents = documents if documents is not None else {}
        self.failures: dict[str, SluiceError] = {}
        self.delay = 0.0  # seconds that each fetch takes

    async def check(self) -> None:
        """Raise what the source is told to."""
        if "" in self.failures:
            raise self.failures[""]

    async def list_pages(self) -> AsyncGenerator[list[DocumentStat], None]:
        """Every document, ascending by UTF-8 bytes."""
        await self.check()
        keys = sorted(filter(self._selects, self.documents), key=str.encode)
        for start in range(0, len(keys), PAGE):
            yield [self._stat(key) for key in keys[start : start + PAGE]]

    async def stat(self, doc_key: str) -> DocumentStat | None:
        """What is there now."""
        await self.check()
        there = doc_key in self.documents and self._selects(doc_key)
        return self._stat(doc_key) if there else None

    async def fetch(
        self, doc_key: str, into: Path, *, source_version: str | None, max_bytes: int
    ) -> StagedDocument:
        """Write the content; versions that were overwritten can't be had."""
        await asyncio.sleep(self.delay)
        if doc_key in self.failures:
            raise self.failures[doc_key]
        if doc_key not in self.documents:
            raise DocumentGone(f"{doc_key} isn't there any more")
        stat = self._stat(doc_key)
        if source_version is not None and stat.source_version != source_version:
            raise DocumentChanged(f"{doc_key} has changed")
        check_size(doc_key, stat.size, max_bytes)
        with ContentFile(into, doc_key, max_bytes) as content:
            content.write(self.documents[doc_key])
        return StagedDocument(
            doc_key=doc_key,
            source_version=stat.source_version,
            content_hash=content.content_hash,
            size=content.size,
            uri=f"memory:///{doc_key}",
        )

    async def close(self) -> None:
        """Nothing is held open."""

    def _selects(self, key: str) -> bool:
        return selects(self.config, key)

    def _stat(self, key: str) -> DocumentStat:
        content = self.documents[key]
        version = hashlib.sha256(content).hexdigest()[:16]
        return DocumentStat(doc_key=key, source_version=version, size=len(content))
