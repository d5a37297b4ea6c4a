"""The graph over the vectors of a large shard, built by a child process on a copy of it.

In place the engine would hold this process's interpreter while it builds: 8 s for 50,000 vectors.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Final

import qdrant_edge as edge

from contracts.errors import StoreUnavailable

NEIGHBOURS: Final = 16  # of a vector in the graph (HNSW's m)
BUILD_WIDTH: Final = 128  # candidates while it is built (ef_construct)
SEARCH_WIDTH: Final = 256  # candidates of a question: 0.999 of the true nearest at 50,000
SMALLEST: Final = 1_000  # kilobytes of vectors; a smaller segment is scanned
FULL_SCAN: Final = 2_000  # kilobytes; what a filter leaves of it is scanned rather than walked
BOUND: Final = 3_600.0  # seconds for one build
NICENESS: Final = 10  # answers and runs come first
PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


async def build_graph(copy: Path, dimension: int) -> None:
    """Build the graph in a folder that nobody else works on.

    Raises:
        StoreUnavailable: it took too long or was killed; the copy is of no use then.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "indexers.edge_graph", str(copy), str(dimension)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(BOUND):
            _, said = await process.communicate()
    except TimeoutError as error:
        raise StoreUnavailable(f"a graph took longer than {BOUND:.0f} s") from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await asyncio.shield(process.wait())
    if process.returncode:
        last = said.decode(errors="replace").strip().splitlines()[-1:]
        raise StoreUnavailable(
            f"the builder of a graph ended with {process.returncode}: {' '.join(last) or 'no word'}"
        )


def main() -> None:
    """The child: PATH and DIMENSION of the copy."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.nice(NICENESS)
    path, dimension = sys.argv[1], int(sys.argv[2])
    shard = edge.EdgeShard.load(path, _config(dimension))
    shard.optimize()
    shard.flush()
    shard.close()


def _config(dimension: int) -> edge.EdgeConfig:
    return edge.EdgeConfig(
        vectors=edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Cosine),
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=SMALLEST, default_segment_number=1),
        hnsw_config=edge.HnswIndexConfig(
            m=NEIGHBOURS, ef_construct=BUILD_WIDTH, full_scan_threshold=FULL_SCAN
        ),
    )


if __name__ == "__main__":
    main()
