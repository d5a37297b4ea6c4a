"""A failure can be acknowledged: the strict gate accepts it."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("known_failures", sa.Column("acknowledged_by", sa.Text))
