"""The demo's own S3 and SQS: MiniStack on loopback, with a bucket that notifies a queue."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiobotocore.session

from contracts.errors import NotReachable
from sluice.processes import dies_with_parent

BUCKET: Final = "handbook"
QUEUE: Final = "handbook-events"
REGION: Final = "us-east-1"
START_BOUND: Final = 30.0  # seconds
POLL: Final = 0.1  # seconds
# MiniStack takes any; ours must not be somebody's real ones.
CREDENTIALS: Final = {"AWS_ACCESS_KEY_ID": "demo", "AWS_SECRET_ACCESS_KEY": "demo"}

# The clients' operations are made at run time and have no types.
Client = Any


@dataclass(frozen=True)
class Cloud:
    """A bucket and its queue."""

    endpoint: str
    queue_url: str
    s3: Client

    async def put(self, key: str, content: bytes) -> None:
        """Drop a document into the bucket."""
        await self.s3.put_object(Bucket=BUCKET, Key=key, Body=content)

    async def delete(self, key: str) -> None:
        """Delete a document from the bucket."""
        await self.s3.delete_object(Bucket=BUCKET, Key=key)


@asynccontextmanager
async def local_cloud(log: Path) -> AsyncIterator[Cloud]:
    """Start the endpoint, wire the bucket to the queue, and end it afterwards."""
    os.environ.update(CREDENTIALS)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "hypercorn",
            "ministack.app:app",
            "--bind",
            f"127.0.0.1:{port}",
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=dies_with_parent(),
        )
    try:
        await _wait_for(process, port, log)
        session = aiobotocore.session.get_session()
        options = {"endpoint_url": endpoint, "region_name": REGION}
        async with (
            session.create_client("s3", **options) as s3,
            session.create_client("sqs", **options) as sqs,
        ):
            yield Cloud(endpoint, await _wire(s3, sqs), s3)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), 5)
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _wait_for(process: asyncio.subprocess.Process, port: int, log: Path) -> None:
    try:
        async with asyncio.timeout(START_BOUND):
            while process.returncode is None:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(POLL)
                else:
                    writer.close()
                    await writer.wait_closed()
                    return
    except TimeoutError:
        pass
    raise NotReachable(f"the demo's S3 endpoint didn't start: {log} says why")


async def _wire(s3: Client, sqs: Client) -> str:
    """Bucket, queue, and the notifications of the one to the other. Answers the queue's URL."""
    await s3.create_bucket(Bucket=BUCKET)
    url = str((await sqs.create_queue(QueueName=QUEUE))["QueueUrl"])
    attributes = await sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    await s3.put_bucket_notification_configuration(
        Bucket=BUCKET,
        NotificationConfiguration={
            "QueueConfigurations": [
                {
                    "QueueArn": attributes["Attributes"]["QueueArn"],
                    "Events": [
                        "s3:ObjectCreated:*",
                        "s3:ObjectRemoved:*",
                        "s3:LifecycleExpiration:*",
                    ],
                }
            ]
        },
    )
    return url
