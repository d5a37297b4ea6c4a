"""Writing fetched content into its file: hashed on the way, and bounded."""

import hashlib
from pathlib import Path
from typing import Self

from contracts.errors import OversizedDocument


class ContentFile:
    """A file that counts and hashes what is written into it, as a context manager."""

    def __init__(self, path: Path, doc_key: str, max_bytes: int) -> None:
        self._file = path.open("wb")
        self._doc_key = doc_key
        self._max_bytes = max_bytes
        self._hash = hashlib.sha256()
        self.size = 0  # bytes so far

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        """Add content; `OversizedDocument` when it becomes too much."""
        self.size += len(data)
        check_size(self._doc_key, self.size, self._max_bytes)
        self._hash.update(data)
        self._file.write(data)

    @property
    def content_hash(self) -> str:
        """SHA-256 of what was written, 64 hex digits."""
        return self._hash.hexdigest()


def check_size(doc_key: str, size: int, max_bytes: int) -> None:
    """Refuse what is larger than the limit."""
    if size > max_bytes:
        raise OversizedDocument(
            f"{doc_key} has more than {max_bytes} bytes: raise SLUICE_MAX_DOCUMENT_BYTES to take it"
        )
