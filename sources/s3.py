"""The kind `s3`: a prefix of a bucket, on AWS or anything that speaks its protocol."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiobotocore.session
from aiohttp import ClientPayloadError
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    ParamValidationError,
    ProfileNotFound,
)
from botocore.exceptions import (
    ConnectionError as BotoConnectionError,
)

from contracts.errors import (
    AccessRefused,
    ConfigurationError,
    DocumentChanged,
    DocumentGone,
    NotReachable,
    SourceUnavailable,
)
from contracts.keys import is_folder_object
from contracts.sources import DocumentStat, SourceConfig, StagedDocument
from sources.content import ContentFile, check_size
from sources.selection import check_options, selects

PAGE: Final = 1_000  # documents
BLOCK: Final = 1024 * 1024  # bytes read at once
CONNECT_TIMEOUT: Final = 5  # seconds
READ_TIMEOUT: Final = 60  # seconds without a byte
OPTIONS: Final = frozenset({"endpoint_url", "region", "addressing_style", "queue_url"})
DEFAULT_REGION: Final = "us-east-1"

GONE: Final = frozenset({"404", "NoSuchKey", "NotFound"})
REFUSED: Final = frozenset(
    {
        "403",
        "AccessDenied",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "ExpiredToken",
    }
)
CHANGED: Final = frozenset({"412", "PreconditionFailed"})

# The client's operations are made at run time and have no types.
Client = Any


class S3Source:
    """A bucket's prefix, opened. The version of a document is its ETag, in listings and looks
    alike: listings know no version ids."""

    def __init__(self, config: SourceConfig) -> None:
        self._config = config
        self._bucket = config.container
        self._stack = AsyncExitStack()
        self._client: Client = None

    async def check(self) -> None:
        """The bucket is there and can be listed."""
        async with self._translated():
            client = await self._opened()
            try:
                await client.head_bucket(Bucket=self._bucket)
            except ClientError as error:
                if _code(error) in {"404", "NoSuchBucket"}:
                    raise ConfigurationError(
                        f"the bucket {self._bucket} doesn't exist at {self._endpoint()}: "
                        "create it, or correct --bucket"
                    ) from error
                raise

    async def list_pages(self) -> AsyncGenerator[list[DocumentStat], None]:
        """Every document, in the ascending order that S3 lists in."""
        token: dict[str, str] = {}
        while True:
            async with self._translated():
                client = await self._opened()
                answer = await client.list_objects_v2(
                    Bucket=self._bucket, Prefix=self._config.prefix, MaxKeys=PAGE, **token
                )
            entries = answer.get("Contents", [])
            page = [
                _stat(entry["Key"], entry)
                for entry in entries
                if self._selects(entry["Key"], entry["Size"])
            ]
            if page:
                yield page
            if not answer.get("IsTruncated"):
                return
            token = {"ContinuationToken": answer["NextContinuationToken"]}

    def _selects(self, key: str, size: int) -> bool:
        return selects(self._config, key) and not is_folder_object(key, size)

    async def stat(self, doc_key: str) -> DocumentStat | None:
        """What is there now. While the bucket is gone nothing is known to be deleted."""
        if not selects(self._config, doc_key):
            return None
        async with self._translated():
            client = await self._opened()
            try:
                head = await client.head_object(Bucket=self._bucket, Key=doc_key)
            except ClientError as error:
                if _code(error) not in GONE:
                    raise
                # A HEAD answers the same bare 404 for a missing object and a missing bucket.
                await self.check()
                return None
        if not self._selects(doc_key, head["ContentLength"]):
            return None
        return _stat(doc_key, head)

    async def fetch(
        self, doc_key: str, into: Path, *, source_version: str | None, max_bytes: int
    ) -> StagedDocument:
        """Stream the content; a wanted version is asked for by its ETag."""
        condition = {"IfMatch": f'"{source_version}"'} if source_version is not None else {}
        async with self._translated():
            client = await self._opened()
            try:
                answer = await client.get_object(Bucket=self._bucket, Key=doc_key, **condition)
            except ClientError as error:
                if _code(error) in GONE:
                    raise DocumentGone(f"{self._uri(doc_key)} isn't there any more") from error
                if _code(error) in CHANGED:
                    raise DocumentChanged(
                        f"{self._uri(doc_key)} has changed since this run first fetched it"
                    ) from error
                raise
            async with answer["Body"] as body:
                check_size(doc_key, answer["ContentLength"], max_bytes)
                with ContentFile(into, doc_key, max_bytes) as content:
                    while block := await body.read(BLOCK):
                        content.write(block)
        if content.size != answer["ContentLength"]:
            raise SourceUnavailable(f"{self._uri(doc_key)} broke off after {content.size} bytes")
        stat = _stat(doc_key, answer)
        return StagedDocument(
            doc_key=doc_key,
            source_version=stat.source_version,
            content_hash=content.content_hash,
            size=content.size,
            uri=self._uri(doc_key),
            media_type=stat.media_type,
            modified_at=stat.modified_at,
            metadata=dict(answer.get("Metadata", {})),
        )

    async def close(self) -> None:
        """Close the client."""
        await self._stack.aclose()
        self._client = None

    async def _opened(self) -> Client:
        if self._client is None:
            options = self._config.options
            endpoint = options.get("endpoint_url")
            style = options.get("addressing_style", "path" if endpoint else "auto")
            context = aiobotocore.session.get_session().create_client(
                "s3",
                endpoint_url=endpoint,
                region_name=options.get("region", DEFAULT_REGION),
                config=Config(
                    connect_timeout=CONNECT_TIMEOUT,
                    read_timeout=READ_TIMEOUT,
                    retries={"mode": "standard", "max_attempts": 3},
                    s3={"addressing_style": style},
                    max_pool_connections=32,
                ),
            )
            self._client = await self._stack.enter_async_context(context)
        return self._client

    def _endpoint(self) -> str:
        return self._config.options.get("endpoint_url", "AWS")

    def _uri(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"

    @asynccontextmanager
    async def _translated(self) -> AsyncIterator[None]:
        where = f"the bucket {self._bucket} at {self._endpoint()}"
        try:
            yield
        except ClientError as error:
            if _code(error) in REFUSED:
                raise AccessRefused(
                    f"{where} refuses us ({_code(error)}): correct the credentials or their rights"
                ) from error
            if _code(error) == "NoSuchBucket":
                raise SourceUnavailable(f"{where} isn't there") from error
            raise SourceUnavailable(f"{where} answered {_code(error)}: {error}") from error
        except NoCredentialsError as error:
            raise ConfigurationError(
                "there are no S3 credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                "or AWS_PROFILE, in the environment of `sluice up`"
            ) from error
        except ProfileNotFound as error:
            raise ConfigurationError(f"{error}: correct AWS_PROFILE") from error
        except ParamValidationError as error:
            raise ConfigurationError(f"{where} can't be asked: {error}") from error
        except BotoConnectionError as error:
            raise NotReachable(
                f"{where} doesn't answer: start it, or correct --endpoint-url"
            ) from error
        except (BotoCoreError, ClientPayloadError, OSError, TimeoutError) as error:
            raise SourceUnavailable(f"{where} failed: {error}") from error


class S3Kind:
    """Validates and opens buckets."""

    def validate(self, config: SourceConfig) -> SourceConfig:
        """Names and addresses in their form."""
        check_options(config, OPTIONS)
        if not config.container:
            raise ConfigurationError("a source of kind s3 needs --bucket NAME")
        for name in ("endpoint_url", "queue_url"):
            address = config.options.get(name)
            if address is not None and not _is_web_address(address):
                raise ConfigurationError(
                    f"{name} is {address!r}, and it must be an http or https address"
                )
        style = config.options.get("addressing_style", "auto")
        if style not in {"auto", "path", "virtual"}:
            raise ConfigurationError(
                f"addressing_style is {style!r}, and it must be auto, path or virtual"
            )
        return config

    def open(self, config: SourceConfig) -> S3Source:
        """Open a bucket."""
        return S3Source(config)


def _stat(key: str, fields: Mapping[str, Any]) -> DocumentStat:
    """From a listing's entry, a head or a get: they share these members."""
    return DocumentStat(
        doc_key=key,
        source_version=str(fields["ETag"]).strip('"'),
        size=fields["Size"] if "Size" in fields else fields["ContentLength"],
        modified_at=fields.get("LastModified"),
        media_type=fields.get("ContentType"),
    )


def _is_web_address(text: str) -> bool:
    parts = urlsplit(text)
    return parts.scheme in {"http", "https"} and bool(parts.netloc)


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "unknown"))


KIND = S3Kind()
