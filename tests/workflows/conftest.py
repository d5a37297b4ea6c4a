"""One Temporal development server for the workflow tests."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client

from sluice.local import TemporalServer
from sluice.orchestrator import connect
from sluice.state import StateFolder


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def temporal_address() -> AsyncIterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        state = StateFolder(Path(folder))
        state.prepare()
        async with TemporalServer(state) as server:
            yield server.address


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest_asyncio.fixture(loop_scope="session")
async def client(temporal_address: str) -> Client:
    return await connect(temporal_address, "default")
