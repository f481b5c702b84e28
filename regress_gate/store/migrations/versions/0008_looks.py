"""The looks of the watch."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "look",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("begun", sa.Text, nullable=False),
        sa.Column("ended", sa.Text),
        sa.Column("candidate", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_index("look_by_place", "look", ["place", "begun"])
