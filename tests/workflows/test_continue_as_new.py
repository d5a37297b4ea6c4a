"""Workflows that continue as new in the middle of things lose nothing."""

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment
from world import small_world

from activities.ports import Limits
from contracts.errors import ObjectMissing
from contracts.runs import RunState
from sluice.local import temporal_binary
from sluice.orchestrator import connect
from storage.objects.memory import MemoryObjects

SUGGEST_AFTER = 60  # events; a server's default is 4,096


@asynccontextmanager
async def impatient_server() -> AsyncIterator[Client]:
    """A development server that suggests to continue as new after a few events."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = await WorkflowEnvironment.start_local(
        port=port,
        dev_server_existing_path=str(temporal_binary()),
        dev_server_extra_args=[
            "--dynamic-config-value",
            f"limit.historyCount.suggestContinueAsNew={SUGGEST_AFTER}",
            "--dynamic-config-value",
            "history.transferProcessorMaxPollRPS=1000",
        ],
    )
    try:
        yield await connect(f"127.0.0.1:{port}", "default")
    finally:
        await env.shutdown()


async def test_a_busy_coordinator_and_a_long_run_continue_as_new_and_lose_nothing() -> None:
    """Every document of a run of many batches, and every change of a busy source, arrives."""
    documents = {f"{n:03}.txt": f"Document {n} tells of item{n}.\n".encode() for n in range(60)}
    with tempfile.TemporaryDirectory() as scratch:
        async with (
            impatient_server() as client,
            small_world(
                client, Path(scratch), documents, limits=Limits(batch_documents=3)
            ) as world,
        ):
            await world.crawl()
            run = await world.ended(0, RunState.PROMOTED)
            assert run.counts.changed == 60
            assert await executions(client, f"source/{world.source_id}/run/{run.seq}") > 1
            await world.quiet()
            for n in range(40):
                documents[f"{n:03}.txt"] = f"Document {n} tells of thing{n}.\n".encode()
                await world.changed(f"{n:03}.txt")
                await asyncio.sleep(0.02)  # a stream of changes, not one burst
            async with asyncio.timeout(60):
                while not await arrived(world.texts, 40):
                    await asyncio.sleep(0.05)
            await world.quiet()
            assert await executions(client, f"source/{world.source_id}") > 1


async def test_a_batch_that_failed_before_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run that has lost a batch isn't promoted, however often it continues as new."""
    documents = {f"{n:03}.txt": f"Document {n} tells of item{n}.\n".encode() for n in range(60)}
    get = MemoryObjects.get

    async def broken(
        self: MemoryObjects, key: str, offset: int = 0, length: int | None = None
    ) -> bytes:
        if key.endswith("plan/000002.json"):
            raise ObjectMissing(f"there is no object {key}")
        return await get(self, key, offset, length)

    monkeypatch.setattr(MemoryObjects, "get", broken)
    with tempfile.TemporaryDirectory() as scratch:
        async with (
            impatient_server() as client,
            small_world(
                client, Path(scratch), documents, limits=Limits(batch_documents=2, window=8)
            ) as world,
        ):
            await world.crawl()
            run = await world.ended(0)
            assert run.state is RunState.FAILED
            assert "there is no object" in (run.reason or "")


async def arrived(texts: object, count: int) -> bool:
    answers = [await texts(f"thing{n}") for n in range(count)]  # type: ignore[operator]
    return all(any(f"thing{n}." in text for text in found) for n, found in enumerate(answers))


async def executions(client: Client, workflow_id: str) -> int:
    """How many executions a workflow id has had."""
    found = [w async for w in client.list_workflows(f"WorkflowId = '{workflow_id}'")]
    return len({workflow.run_id for workflow in found})
