"""Consumes an SQS queue: long polls, many messages in flight, deletes what was accepted."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import aiobotocore.session
import structlog
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
)
from botocore.exceptions import (
    ConnectionError as BotoConnectionError,
)

from bridge.consumers import Sink
from bridge.limits import BridgeLimits
from contracts.errors import ConfigurationError, NotReachable, SluiceError

log = structlog.get_logger(__name__)

BATCH: Final = 10  # messages of one call, SQS's limit
DELETE_TRIES: Final = 3
MISSING: Final = frozenset(
    {
        "AWS.SimpleQueueService.NonExistentQueue",
        "QueueDoesNotExist",
        "NonExistentQueue",
    }
)
REFUSED: Final = frozenset({"AccessDenied", "AccessDeniedException", "InvalidClientTokenId"})

# The client's operations are made at run time and have no types.
Client = Any


@dataclass(frozen=True)
class QueueAddress:
    """Where a queue is. Two sources with the same address share one consumer."""

    url: str
    endpoint_url: str | None = None
    region: str = "us-east-1"


class SqsConsumer:
    """One queue.

    A message that isn't accepted is left alone: it comes again when its visibility ends. While
    one is handled its visibility is extended (vectordotdev/vector#4910); the newest receipt handle
    of a message is the one that counts (zarusz/SlimMessageBus#473).
    """

    def __init__(self, address: QueueAddress, limits: BridgeLimits) -> None:
        self._address = address
        self._limits = limits
        self._stop = asyncio.Event()
        self._places = asyncio.Semaphore(limits.in_flight)
        self._handles: dict[str, str] = {}  # newest receipt handle by message id
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._lost: set[str] = set()  # handles that can't be extended any more
        self._accepted: asyncio.Queue[str | None] = asyncio.Queue()  # None: no more will come

    async def run(self, sink: Sink) -> None:
        """Receive until `stop`, then finish what is in flight."""
        async with self._client() as client:
            beats = asyncio.create_task(self._extend(client))
            deletes = asyncio.create_task(self._delete(client))
            try:
                # Without either of them messages would only seem to be consumed.
                while not (self._stop.is_set() or beats.done() or deletes.done()):
                    for message in await self._receive(client, (beats, deletes)):
                        await self._begin(message, sink)
            finally:
                await self._drain()
                beats.cancel()
                self._accepted.put_nowait(None)
                ends = await asyncio.gather(beats, deletes, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def stop(self) -> None:
        """Receive nothing new."""
        self._stop.set()

    # --- receiving -----------------------------------------------------------------------------

    async def _receive(
        self, client: Client, helpers: "Iterable[asyncio.Task[None]]"
    ) -> list[dict[str, Any]]:
        """One long poll, given up at once when we are asked to stop or a helper ends."""
        call = asyncio.create_task(self._call_receive(client))
        stop = asyncio.create_task(self._stop.wait())
        await asyncio.wait({call, stop, *helpers}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if not call.done():
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await call
            return []
        return call.result()

    async def _call_receive(self, client: Client) -> list[dict[str, Any]]:
        async with self._places:  # no place in flight, no receive
            free = self._limits.in_flight - len(self._tasks)
        async with _translated(self._address):
            answer = await client.receive_message(
                QueueUrl=self._address.url,
                # What waits for a place would have nobody who extends its visibility.
                MaxNumberOfMessages=min(BATCH, free),
                WaitTimeSeconds=self._limits.long_poll,
                VisibilityTimeout=self._limits.visibility,
                AttributeNames=["ApproximateReceiveCount", "SentTimestamp"],
                MessageAttributeNames=["All"],
            )
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        return messages

    async def _begin(self, message: dict[str, Any], sink: Sink) -> None:
        """Start handling; a message that is handled already only brings a newer handle."""
        name = message["MessageId"]
        self._handles[name] = message["ReceiptHandle"]
        if name in self._tasks:
            return
        await self._places.acquire()
        task = asyncio.create_task(self._handle(message, sink))
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._end(name))

    def _end(self, name: str) -> None:
        self._tasks.pop(name, None)
        if not self._tasks:
            self._lost.clear()
        self._places.release()

    async def _handle(self, message: dict[str, Any], sink: Sink) -> None:
        name = message["MessageId"]
        attributes = {**message.get("Attributes", {}), "message_id": name}
        attributes["queue"] = self._address.url
        try:
            await sink.take_message(message["Body"].encode(errors="surrogatepass"), attributes)
        except SluiceError as error:
            self._handles.pop(name, None)
            log.warning("a message comes again", message_id=name, reason=str(error))
        except Exception:
            self._handles.pop(name, None)
            log.exception("a message comes again", message_id=name)
        else:
            self._accepted.put_nowait(name)

    async def _drain(self) -> None:
        if self._tasks:
            await asyncio.wait(set(self._tasks.values()), timeout=self._limits.drain)
        late = list(self._tasks.values())
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    # --- visibility ----------------------------------------------------------------------------

    async def _extend(self, client: Client) -> None:
        """Keep what is in flight ours; a lost handle is given up (elastic/beats#29480)."""
        while True:
            await asyncio.sleep(self._limits.visibility / 3)
            held = [self._handles[name] for name in self._tasks if name in self._handles]
            for some in _tens([handle for handle in held if handle not in self._lost]):
                await self._extend_some(client, some)

    async def _extend_some(self, client: Client, handles: list[str]) -> None:
        entries = [
            {
                "Id": str(number),
                "ReceiptHandle": handle,
                "VisibilityTimeout": self._limits.visibility,
            }
            for number, handle in enumerate(handles)
        ]
        try:
            async with _translated(self._address):
                answer = await client.change_message_visibility_batch(
                    QueueUrl=self._address.url, Entries=entries
                )
        except SluiceError as error:
            log.warning("visibility was not extended", reason=str(error))
            return
        self._lost.update(
            handles[int(failed["Id"])]
            for failed in answer.get("Failed", [])
            if failed.get("SenderFault")
        )

    # --- deleting ------------------------------------------------------------------------------

    async def _delete(self, client: Client) -> None:
        """Delete what is accepted, together what was accepted meanwhile, until no more comes."""
        more = True
        while more:
            names = [await self._accepted.get()]
            while not self._accepted.empty():
                names.append(self._accepted.get_nowait())
            more = None not in names
            await self._delete_now(client, [name for name in names if name is not None])

    async def _delete_now(self, client: Client, names: list[str]) -> None:
        """Delete in tens; entries that fail are tried again, then left to come again."""
        handles = [handle for name in names if (handle := self._handles.pop(name, None))]
        for some in _tens(handles):
            left = some
            for _ in range(DELETE_TRIES):
                left = await self._delete_some(client, left)
                if not left:
                    break
            if left:
                log.warning("accepted messages were not deleted, and come again", count=len(left))

    async def _delete_some(self, client: Client, handles: list[str]) -> list[str]:
        entries = [
            {"Id": str(number), "ReceiptHandle": handle} for number, handle in enumerate(handles)
        ]
        try:
            async with _translated(self._address):
                answer = await client.delete_message_batch(
                    QueueUrl=self._address.url, Entries=entries
                )
        except SluiceError as error:
            log.warning("a deletion failed", reason=str(error))
            return handles
        # HTTP 200 says nothing of the entries (bbc/sqs-consumer#193).
        return [handles[int(failed["Id"])] for failed in answer.get("Failed", [])]

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Client]:
        context = aiobotocore.session.get_session().create_client(
            "sqs",
            endpoint_url=self._address.endpoint_url,
            region_name=self._address.region,
            config=Config(
                connect_timeout=5,
                read_timeout=self._limits.long_poll + 15,
                retries={"mode": "standard", "max_attempts": 2},
            ),
        )
        async with context as client:
            yield client


def _tens(items: list[str]) -> Iterable[list[str]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]


@asynccontextmanager
async def _translated(address: QueueAddress) -> AsyncIterator[None]:
    where = f"the queue {address.url}"
    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", "unknown"))
        if code in MISSING:
            raise ConfigurationError(
                f"{where} doesn't exist: create it, or correct --queue-url"
            ) from error
        if code in REFUSED:
            raise ConfigurationError(
                f"{where} refuses us ({code}): correct the credentials or their rights"
            ) from error
        raise NotReachable(f"{where} answered {code}: {error}") from error
    except NoCredentialsError as error:
        raise ConfigurationError(
            "there are no SQS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            "or AWS_PROFILE, in the environment of `sluice up`"
        ) from error
    except BotoConnectionError as error:
        raise NotReachable(f"{where} doesn't answer") from error
    except (BotoCoreError, OSError, TimeoutError) as error:
        raise NotReachable(f"{where} failed: {error}") from error
