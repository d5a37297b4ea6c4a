"""The child process: takes one job after another on stdin, answers on its old stdout.

A frame is a length (4 bytes, big-endian) and that much JSON.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import BinaryIO

from contracts.errors import (
    DangerousDocument,
    ParseError,
    ParserDied,
    SluiceError,
    UnexpectedFailure,
)
from documents import tokens
from documents.parsers.parsed import Content
from documents.pipeline import chunk

LENGTH_BYTES = 4
PR_SET_PDEATHSIG = 1  # linux/prctl.h
MOST_FILES = 256
MOST_FILE_BYTES = 512 * 1024 * 1024  # of what the parser may write


def main() -> None:
    """Limit ourselves, load what every job needs, say that we are ready, serve until EOF."""
    memory = int(sys.argv[1])
    _die_with_parent()
    answers = os.fdopen(os.dup(1), "wb")
    # What a library prints must not get between the frames.
    os.dup2(2, 1)
    tokens.warm()
    _limit(memory)
    _send(answers, {"ready": os.getpid()})
    requests = sys.stdin.buffer
    while (header := requests.read(LENGTH_BYTES)) and len(header) == LENGTH_BYTES:
        job = json.loads(requests.read(int.from_bytes(header, "big")))
        _send(answers, _answer(job))


def _answer(job: dict[str, str | None]) -> dict[str, object]:
    content = Content(Path(job["path"] or ""), job["name"] or "", job["media_type"])
    try:
        document = chunk(content)
        return {"document": document.model_dump_json(), **_memory()}
    except ParseError as error:
        failure: SluiceError = error
    except MemoryError:
        failure = ParserDied(f"{content.name} needs more memory than a parser may take")
    except RecursionError:
        failure = DangerousDocument(f"{content.name} is nested too deeply")
    except Exception as error:  # noqa: BLE001 - a fault of ours must not end as a silent death
        failure = UnexpectedFailure(f"{content.name}: {type(error).__name__}: {error}")
    return {"error": failure.name, "message": str(failure), **_memory()}


def _memory() -> dict[str, int]:
    """What is resident now. The peak that the kernel counts for a process has its parent's in it,
    from before the program was loaded, so a large parent would make every child look worn."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return {"kilobytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}
    return {"kilobytes": pages * resource.getpagesize() // 1024}


def _send(answers: BinaryIO, message: dict[str, object]) -> None:
    data = json.dumps(message).encode()
    answers.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)
    answers.flush()


def _limit(memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_FILES, MOST_FILES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_FILE_BYTES, MOST_FILE_BYTES))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def _die_with_parent() -> None:
    """On Linux the kernel ends us with our parent; elsewhere the end of stdin does."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
