"""What only measuring tells: the run's place in its experiment, its failure, the server's facts, its answers, and what
a build's arguments and variables are. And the experiments, so that one that was interrupted can go on.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("run", sa.Column("measured", sa.Text))
    op.create_table(
        "outputs",
        sa.Column("run_id", sa.Integer, sa.ForeignKey("run.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_table(
        "build_config",
        sa.Column("build_id", sa.Integer, sa.ForeignKey("build.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_table(
        "experiment",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("begun", sa.Text, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("ended", sa.Text),
    )
