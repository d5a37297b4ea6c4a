"""Histories that earlier releases recorded replay on today's workflows."""

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from sluice.worker import WORKFLOWS, workflow_runner

HISTORIES = sorted((Path(__file__).parents[1] / "histories").glob("*.json"))


def recorded(path: Path) -> WorkflowHistory:
    return WorkflowHistory.from_json(path.stem, path.read_text())


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_a_recorded_history_replays(path: Path) -> None:
    """No workflow that runs now would be stuck by this code."""
    history = recorded(path)
    replayer = Replayer(
        workflows=list(WORKFLOWS),
        data_converter=pydantic_data_converter,
        workflow_runner=workflow_runner(),
    )
    await replayer.replay_workflow(history)


def test_every_workflow_has_a_recorded_history() -> None:
    """The replay covers the coordinator, runs and batches, with queues and in one process."""
    kinds = {path.stem.split("-", 1)[1] for path in HISTORIES}
    for kind in ("queues", "one-process"):
        assert {f"{kind}-coordinator", f"{kind}-batch", f"{kind}-run-change"} <= kinds
