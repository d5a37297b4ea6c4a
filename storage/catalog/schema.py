"""The tables. Every interval is `from_seq <= n < to_seq`; times are seconds since the epoch."""

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata: Final = MetaData()

# Keys sort by their UTF-8 bytes everywhere: SQLite does so by itself, PostgreSQL with collation C.
Key = Text().with_variant(Text(collation="C"), "postgresql")

sources: Final = Table(
    "sources",
    metadata,
    Column("source_id", String(63), primary_key=True),
    Column("config", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("paused", Boolean, nullable=False, default=False),
    Column("pinned", Boolean, nullable=False, default=False),
    Column("removed", Boolean, nullable=False, default=False),
)

live_pointers: Final = Table(
    "live_pointers",
    metadata,
    Column("source_id", String(63), primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("promoted_at", Float),
    Column("oldest_retained", BigInteger, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("open_seq", BigInteger),
    Column("last_seq", BigInteger, nullable=False),
    Column("retired_to", BigInteger, nullable=False),  # stores hold nothing closed up to it
    Column("retire_at", Float),  # when the next retirement is due
    Column("retire_to", BigInteger),  # the sequence that it retires; none: `oldest_retained`
)

runs: Final = Table(
    "runs",
    metadata,
    Column("source_id", String(63), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("base_seq", BigInteger, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("state", String(20), nullable=False),
    Column("cause", String(20), nullable=False),
    Column("counts", Text, nullable=False),
    Column("reason", Text),
    Column("manifest_digest", String(64)),
    Column("started_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("promoted_at", Float),
    PrimaryKeyConstraint("source_id", "seq"),
    UniqueConstraint("source_id", "request"),
)

document_versions: Final = Table(
    "document_versions",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("source_id", String(63), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("doc_key", Key, nullable=False),
    Column("from_seq", BigInteger, nullable=False),
    Column("to_seq", BigInteger, nullable=False),
    Column("source_version", Text, nullable=False),
    Column("content_hash", String(64), nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("title", Text),
    Column("uri", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("parser", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("chunks", Integer, nullable=False),
    UniqueConstraint("source_id", "generation", "doc_key", "from_seq"),
    Index("document_versions_from", "source_id", "generation", "from_seq"),
    Index("document_versions_to", "source_id", "generation", "to_seq"),
)

chunks: Final = Table(
    "chunks",
    metadata,
    Column("chunk_id", String(36), primary_key=True),
    Column("source_id", String(63), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("doc_key", Key, nullable=False),
    Column("chunk_key", String(40), nullable=False),
    Column("run_id", Text, nullable=False),
    Column("from_seq", BigInteger, nullable=False),
    Column("to_seq", BigInteger, nullable=False),
    Column("text_hash", String(64), nullable=False),
    Column("prefix_length", Integer, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("pack", Text, nullable=False),
    Column("pack_offset", BigInteger, nullable=False),
    Column("pack_length", Integer, nullable=False),
    # Opened by a run that doesn't want it any more; the row goes when the stores have let go.
    Column("unwanted", Boolean, nullable=False, default=False),
    Index("chunks_document", "source_id", "generation", "doc_key", "to_seq"),
    Index("chunks_interval", "source_id", "generation", "from_seq", "to_seq"),
    Index("chunks_to", "source_id", "generation", "to_seq"),
    Index("chunks_pack", "pack"),
)

layout: Final = Table(
    "layout",
    metadata,
    Column("document_version_id", Integer, nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("chunk_id", String(36), nullable=False),
    Column("char_start", Integer, nullable=False),
    Column("char_end", Integer, nullable=False),
    Column("page_start", Integer),
    Column("page_end", Integer),
    Column("heading_path", JSON, nullable=False),
    PrimaryKeyConstraint("document_version_id", "ordinal"),
    Index("layout_chunk", "chunk_id", "document_version_id"),
)

outcomes: Final = Table(
    "outcomes",
    metadata,
    Column("source_id", String(63), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("doc_key", Key, nullable=False),
    Column("stage", String(10), nullable=False),
    Column("status", String(10), nullable=False),
    Column("retryable", Boolean, nullable=False),
    Column("outcome", Text, nullable=False),  # the whole model as JSON
    PrimaryKeyConstraint("source_id", "seq", "doc_key", "stage"),
    Index("outcomes_document", "source_id", "doc_key", "seq"),
)

last_outcomes: Final = Table(
    "last_outcomes",
    metadata,
    Column("source_id", String(63), nullable=False),
    Column("doc_key", Key, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("status", String(10), nullable=False),
    Column("outcome", Text, nullable=False),
    PrimaryKeyConstraint("source_id", "doc_key"),
)

pins: Final = Table(
    "pins",
    metadata,
    Column("source_id", String(63), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("doc_key", Key, nullable=False),
    Column("source_version", Text, nullable=False),
    PrimaryKeyConstraint("source_id", "seq", "doc_key"),
)

known_failures: Final = Table(
    "known_failures",
    metadata,
    Column("source_id", String(63), nullable=False),
    Column("doc_key", Key, nullable=False),
    Column("source_version", Text, nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("error", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("acknowledged_by", Text),  # who accepts that this version fails
    PrimaryKeyConstraint("source_id", "doc_key"),
)

pending: Final = Table(
    "pending",
    metadata,
    Column("source_id", String(63), nullable=False),
    Column("doc_key", Key, nullable=False),  # empty: every key, a crawl
    Column("hinted_at", Float),
    Column("recheck", Boolean, nullable=False, default=False),
    Column("taken_by", BigInteger),  # sequence of the run that has it; none: given back
    Column("starts_run", Boolean, nullable=False, default=False),
    Column("attempts", Integer, nullable=False, default=0),
    Column("not_before", Float),
    Column("events", Text),  # that named the key, as JSON
    PrimaryKeyConstraint("source_id", "doc_key"),
)

purges: Final = Table(
    "purges",
    metadata,
    Column("source_id", String(63), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("due_at", Float, nullable=False),
    Column("first", Boolean, nullable=False),  # True: nothing may stage before it
    PrimaryKeyConstraint("source_id", "generation", "seq"),
)

vectors: Final = Table(
    "vectors",
    metadata,
    Column("space", Text, nullable=False),
    Column("text_hash", String(64), nullable=False),
    Column("vector", LargeBinary, nullable=False),  # little-endian float32
    PrimaryKeyConstraint("space", "text_hash"),
)

audit: Final = Table(
    "audit",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("source_id", String(63), nullable=False),
    Column("seq", BigInteger),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("details", JSON, nullable=False),
    Column("at", Float, nullable=False),
    Index("audit_source", "source_id", "id"),
)
