"""Pinned versions."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "pin",
        sa.Column("number", sa.Text, primary_key=True),
        sa.Column("commit_id", sa.Text, primary_key=True),
        sa.Column("variant", sa.Text, primary_key=True),
        sa.Column("pinned_at", sa.Text, nullable=False),
    )
