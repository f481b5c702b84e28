"""The results of comparisons."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "comparison",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("created", sa.Text, nullable=False),
        sa.Column("testbed", sa.Text, nullable=False),
        sa.Column("suite", sa.Text, nullable=False),
        sa.Column("suite_version", sa.Text, nullable=False),
        sa.Column("baseline", sa.Text, nullable=False),
        sa.Column("candidate", sa.Text, nullable=False),
        sa.Column("decision", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_index("comparison_by_place", "comparison", ["testbed", "suite", "suite_version", "created"])
