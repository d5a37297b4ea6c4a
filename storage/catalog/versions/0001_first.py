"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

# Frozen as the schema was then: a later change of the schema is a revision of its own.
KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "sources",
        sa.Column("source_id", sa.String(63), nullable=False),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("pinned", sa.Boolean, nullable=False),
        sa.Column("removed", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("source_id"),
    )
    op.create_table(
        "live_pointers",
        sa.Column("source_id", sa.String(63), nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("promoted_at", sa.Float),
        sa.Column("oldest_retained", sa.BigInteger, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("open_seq", sa.BigInteger),
        sa.Column("last_seq", sa.BigInteger, nullable=False),
        sa.Column("retired_to", sa.BigInteger, nullable=False),
        sa.Column("retire_at", sa.Float),
        sa.PrimaryKeyConstraint("source_id"),
    )
    op.create_table(
        "runs",
        sa.Column("source_id", sa.String(63), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("base_seq", sa.BigInteger, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("cause", sa.String(20), nullable=False),
        sa.Column("counts", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("manifest_digest", sa.String(64)),
        sa.Column("started_at", sa.Float, nullable=False),
        sa.Column("ended_at", sa.Float),
        sa.Column("promoted_at", sa.Float),
        sa.PrimaryKeyConstraint("source_id", "seq"),
        sa.UniqueConstraint("source_id", "request"),
    )
    op.create_table(
        "document_versions",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("source_id", sa.String(63), nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("doc_key", KEY, nullable=False),
        sa.Column("from_seq", sa.BigInteger, nullable=False),
        sa.Column("to_seq", sa.BigInteger, nullable=False),
        sa.Column("source_version", sa.Text, nullable=False),
        sa.Column("content_hash", sa.String(64), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("title", sa.Text),
        sa.Column("uri", sa.Text, nullable=False),
        sa.Column("media_type", sa.Text, nullable=False),
        sa.Column("parser", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("chunks", sa.Integer, nullable=False),
        sa.UniqueConstraint("source_id", "generation", "doc_key", "from_seq"),
    )
    op.create_index(
        "document_versions_from", "document_versions", ["source_id", "generation", "from_seq"]
    )
    op.create_index(
        "document_versions_to", "document_versions", ["source_id", "generation", "to_seq"]
    )
    op.create_table(
        "chunks",
        sa.Column("chunk_id", sa.String(36), nullable=False),
        sa.Column("source_id", sa.String(63), nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("doc_key", KEY, nullable=False),
        sa.Column("chunk_key", sa.String(40), nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("from_seq", sa.BigInteger, nullable=False),
        sa.Column("to_seq", sa.BigInteger, nullable=False),
        sa.Column("text_hash", sa.String(64), nullable=False),
        sa.Column("prefix_length", sa.Integer, nullable=False),
        sa.Column("tokens", sa.Integer, nullable=False),
        sa.Column("pack", sa.Text, nullable=False),
        sa.Column("pack_offset", sa.BigInteger, nullable=False),
        sa.Column("pack_length", sa.Integer, nullable=False),
        sa.Column("unwanted", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("chunk_id"),
    )
    op.create_index("chunks_document", "chunks", ["source_id", "generation", "doc_key", "to_seq"])
    op.create_index("chunks_interval", "chunks", ["source_id", "generation", "from_seq", "to_seq"])
    op.create_index("chunks_pack", "chunks", ["pack"])
    op.create_index("chunks_to", "chunks", ["source_id", "generation", "to_seq"])
    op.create_table(
        "layout",
        sa.Column("document_version_id", sa.Integer, nullable=False),
        sa.Column("ordinal", sa.Integer, nullable=False),
        sa.Column("chunk_id", sa.String(36), nullable=False),
        sa.Column("char_start", sa.Integer, nullable=False),
        sa.Column("char_end", sa.Integer, nullable=False),
        sa.Column("page_start", sa.Integer),
        sa.Column("page_end", sa.Integer),
        sa.Column("heading_path", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("document_version_id", "ordinal"),
    )
    op.create_index("layout_chunk", "layout", ["chunk_id", "document_version_id"])
    op.create_table(
        "outcomes",
        sa.Column("source_id", sa.String(63), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("doc_key", KEY, nullable=False),
        sa.Column("stage", sa.String(10), nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("retryable", sa.Boolean, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("source_id", "seq", "doc_key", "stage"),
    )
    op.create_table(
        "last_outcomes",
        sa.Column("source_id", sa.String(63), nullable=False),
        sa.Column("doc_key", KEY, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("source_id", "doc_key"),
    )
    op.create_table(
        "pins",
        sa.Column("source_id", sa.String(63), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("doc_key", KEY, nullable=False),
        sa.Column("source_version", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("source_id", "seq", "doc_key"),
    )
    op.create_table(
        "known_failures",
        sa.Column("source_id", sa.String(63), nullable=False),
        sa.Column("doc_key", KEY, nullable=False),
        sa.Column("source_version", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("source_id", "doc_key"),
    )
    op.create_table(
        "pending",
        sa.Column("source_id", sa.String(63), nullable=False),
        sa.Column("doc_key", KEY, nullable=False),
        sa.Column("hinted_at", sa.Float),
        sa.Column("recheck", sa.Boolean, nullable=False),
        sa.Column("taken_by", sa.BigInteger),
        sa.Column("starts_run", sa.Boolean, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("not_before", sa.Float),
        sa.PrimaryKeyConstraint("source_id", "doc_key"),
    )
    op.create_table(
        "purges",
        sa.Column("source_id", sa.String(63), nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("due_at", sa.Float, nullable=False),
        sa.Column("first", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("source_id", "generation", "seq"),
    )
    op.create_table(
        "vectors",
        sa.Column("space", sa.Text, nullable=False),
        sa.Column("text_hash", sa.String(64), nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("space", "text_hash"),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("source_id", sa.String(63), nullable=False),
        sa.Column("seq", sa.BigInteger),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("details", sa.JSON, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_index("audit_source", "audit", ["source_id", "id"])


def downgrade() -> None:
    for table in (
        "audit",
        "vectors",
        "purges",
        "pending",
        "known_failures",
        "pins",
        "last_outcomes",
        "outcomes",
        "layout",
        "chunks",
        "document_versions",
        "runs",
        "live_pointers",
        "sources",
    ):
        op.drop_table(table)
