"""A retirement remembers what it retires: a promotion no longer puts it off."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("live_pointers", sa.Column("retire_to", sa.BigInteger))
