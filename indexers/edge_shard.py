"""One generation's shard of Qdrant Edge in its folder: made whole, opened, translated, replaced."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import qdrant_edge as edge

from contracts.errors import ConfigurationError, StoreUnavailable

ROOM: Final = 64 * 2**20  # bytes of free disk that a write asks for: segments grow by 32 MiB
MOST_BEHIND: Final = 20_000  # operations that a copy may miss; then it is given up
NEW: Final = ".new"  # a shard that is being made
GRAPH: Final = ".graph"  # a copy that is given its graph
OLD: Final = ".old"  # what a copy has replaced

_INTEGER: Final = edge.IntegerIndexParams(lookup=False, range=True, enable_hnsw=False)
_FIELDS: Final = (
    ("source_id", edge.KeywordIndexParams(is_tenant=True)),
    ("from_seq", _INTEGER),
    ("to_seq", _INTEGER),
)


class Shard:
    """An open shard. Use one thread for writes; a replacement shuts readers out.

    Args:
        path: its folder.
        dimension: of every vector.
    """

    def __init__(self, path: Path, dimension: int) -> None:
        self.path = path
        self._dimension = dimension
        self._journal: list[edge.UpdateOperation] | None = None  # since the copy was made
        with translated(path):
            self._settle()
            if not path.exists():
                self._create()
            self.engine = edge.EdgeShard.load(str(path))

    @staticmethod
    def is_at(path: Path) -> bool:
        """Whether there is one in the folder, or was when a replacement was interrupted."""
        return path.exists() or path.with_name(path.name + OLD).exists()

    @property
    def unindexed(self) -> int:
        """Points that no graph leads to; they are scanned."""
        info = self.engine.info()
        return max(info.points_count - info.indexed_vectors_count, 0)

    @property
    def points(self) -> int:
        """All points."""
        return self.engine.info().points_count

    def update(self, operations: Sequence[edge.UpdateOperation]) -> None:
        """Do and flush.

        Raises:
            StoreUnavailable: the disk has no room, or the engine failed.
        """
        check_room(self.path, ROOM)
        with translated(self.path):
            for operation in operations:
                self.engine.update(operation)
            self.engine.flush()
        if self._journal is not None:
            self._journal.extend(operations)

    def copy(self) -> Path:
        """A copy for the graph; what is written from now on is kept to be done to it too.

        Raises:
            StoreUnavailable: the disk has no room for it, and for the graph.
        """
        copy = self._beside(GRAPH)
        size = sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file())
        check_room(self.path, ROOM + 3 * size)
        shutil.rmtree(copy, ignore_errors=True)
        with translated(self.path):
            self.engine.flush()
            shutil.copytree(self.path, copy)
        self._journal = []
        return copy

    def drop_copy(self) -> None:
        """Go on as before."""
        self._journal = None
        shutil.rmtree(self._beside(GRAPH), ignore_errors=True)

    def take_copy(self) -> None:
        """Put the copy in the shard's place, with the little that it may still miss. Nobody reads
        meanwhile."""
        self.catch_up()
        self._replace()

    def _replace(self) -> None:
        # Either folder is whole at any moment: after a kill the next opening finds one of them.
        with translated(self.path):
            self.engine.close()
            try:
                self.path.rename(self._beside(OLD))
                self._beside(GRAPH).rename(self.path)
            finally:
                self._settle()
                self.engine = edge.EdgeShard.load(str(self.path))
        self._journal = None

    def catch_up(self) -> None:
        """Do to the copy what was written meanwhile, beside readers.

        Raises:
            StoreUnavailable: that is too much.
        """
        journal = self._journal
        if not journal:
            return
        if len(journal) > MOST_BEHIND:
            raise StoreUnavailable(f"{len(journal)} writes came while the graph was built")
        with translated(self.path):
            shard = edge.EdgeShard.load(str(self._beside(GRAPH)))
            for operation in journal:
                shard.update(operation)
            shard.flush()
            shard.close()
        self._journal = []

    def close(self) -> None:
        """Unlock the folder."""
        with translated(self.path):
            self.engine.close()

    def _settle(self) -> None:
        """End what a kill has interrupted."""
        old = self._beside(OLD)
        if old.exists() and not self.path.exists():
            old.rename(self.path)
        for left in (old, self._beside(GRAPH), self._beside(NEW)):
            shutil.rmtree(left, ignore_errors=True)

    def _create(self) -> None:
        # Made aside and renamed: a kill half-way must not leave a shard without its indexes,
        # which filters would answer a hundred times slower for ever.
        aside = self._beside(NEW)
        aside.mkdir(parents=True)
        check_room(aside, ROOM)
        vectors = edge.EdgeVectorParams(size=self._dimension, distance=edge.Distance.Cosine)
        optimizers = edge.EdgeOptimizersConfig(indexing_threshold=0)
        config = edge.EdgeConfig(vectors=vectors, optimizers=optimizers)
        shard = edge.EdgeShard.create(str(aside), config)
        for field, schema in _FIELDS:
            shard.update(edge.UpdateOperation.create_field_index(field, schema))
        shard.flush()
        shard.close()
        aside.rename(self.path)

    def _beside(self, mark: str) -> Path:
        return self.path.with_name(self.path.name + mark)


def check_room(path: Path, needed: int) -> None:
    """The engine maps its files: one that can't grow kills the process with SIGBUS.

    Raises:
        StoreUnavailable: fewer bytes than `needed` are free.
    """
    free = shutil.disk_usage(path).free
    if free < needed:
        raise StoreUnavailable(
            f"The vector store in {path} needs {needed // 2**20} MiB of free disk, and there are "
            f"{free // 2**20}: make room."
        )


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """The engine's errors in our words."""
    try:
        yield
    except StoreUnavailable:
        raise
    except Exception as error:  # the engine raises plain Exception for everything
        raise _translation(path, str(error)) from error


def _translation(path: Path, message: str) -> ConfigurationError | StoreUnavailable:
    if "expected dim" in message:
        return ConfigurationError(
            f"The vector store in {path} is of another dimension than the embedder ({message}); "
            "choose the embedder that it was filled with, or another state folder."
        )
    if "WouldBlock" in message:
        return StoreUnavailable(
            f"The vector store in {path} is open in another process; "
            "stop that process, or go through its HTTP API."
        )
    return StoreUnavailable(
        f"The vector store in {path} failed: {message}. Look at the disk's free space and rights; "
        "if the store is damaged, delete that folder: the next start of the stack fills it again."
    )
