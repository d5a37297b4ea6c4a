"""Scanned pages, from a start that can't read them to one that can."""

from pathlib import Path

import pytest
from program import until

from console.client import ApiClient
from contracts.search import SearchQuestion
from contracts.sources import SourceConfig
from sluice.demo_cloud import BUCKET, local_cloud
from sluice.settings import Settings
from sluice.stack import running_stack

SCAN = Path(__file__).parents[1] / "cases" / "scans" / "notice.png"
SOURCE = "archive"


def settings(folder: Path, languages: str) -> Settings:
    return Settings(state=folder / "state", log_level="error", recognition_languages=languages)


async def ended(client: ApiClient) -> str | None:
    """What the document failed with, once it has; empty where it is served."""
    for found in await client.documents(SOURCE):
        return found.error or ("" if found.live_version is not None else None)
    return None


@pytest.mark.needs("tesseract")
async def test_what_could_not_be_recognized_is_tried_again_when_it_can(tmp_path: Path) -> None:
    """The start after Tesseract's data came serves the scan, though no event tells of it."""
    async with local_cloud(tmp_path / "cloud.log") as cloud:
        await cloud.put("notice.png", SCAN.read_bytes())
        config = SourceConfig(
            source_id=SOURCE,
            kind="s3",
            container=BUCKET,
            options={"endpoint_url": cloud.endpoint},
        )
        async with (
            running_stack(settings(tmp_path, "tlh")) as stack,
            ApiClient(stack.access.address or "", stack.access.key) as client,
        ):
            await client.add(config, "test")

            async def failed() -> bool:
                return await ended(client) == "MissingText"

            await until(failed)
        async with (
            running_stack(settings(tmp_path, "eng")) as stack,
            ApiClient(stack.access.address or "", stack.access.key) as client,
        ):

            async def served() -> bool:
                return await ended(client) == ""

            await until(served)
            answer = await client.search(SearchQuestion(text="foghorn", sources=(SOURCE,)))
    assert "Foghorn every ninety seconds" in answer.hits[0].text
