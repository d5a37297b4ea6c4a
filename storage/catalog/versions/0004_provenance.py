"""Outcomes are found by document, and a pending key remembers the events that named it."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("pending", sa.Column("events", sa.Text))
    op.create_index("outcomes_document", "outcomes", ["source_id", "doc_key", "seq"])
