"""Runs, their trials, sources and samples."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "testbed",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("facts", sa.Text, nullable=False),
    )
    op.create_table(
        "suite",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.UniqueConstraint("name", "version"),
    )
    op.create_table(
        "build",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("number", sa.Text, nullable=False),
        sa.Column("commit_id", sa.Text, nullable=False),
        sa.Column("variant", sa.Text, nullable=False),
        sa.UniqueConstraint("number", "commit_id", "variant"),
    )
    op.create_table(
        "run",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("build_id", sa.Integer, sa.ForeignKey("build.id"), nullable=False),
        sa.Column("testbed_id", sa.Integer, sa.ForeignKey("testbed.id"), nullable=False),
        sa.Column("suite_id", sa.Integer, sa.ForeignKey("suite.id"), nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("started", sa.Text),
        sa.Column("conditions", sa.Text, nullable=False),
        sa.Column("libraries", sa.Text, nullable=False),
        sa.Column("metrics", sa.Text, nullable=False),
        sa.UniqueConstraint("build_id", "testbed_id", "suite_id", "label"),
        sqlite_autoincrement=True,
    )
    op.create_index("run_of_testbed", "run", ["testbed_id", "suite_id"])
    op.create_table(
        "trial",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
        sa.Column("scenario", sa.Text, nullable=False),
        sa.Column("ordinal", sa.BigInteger, nullable=False),
        sa.Column("completed", sa.BigInteger, nullable=False),
        sa.Column("failed", sa.BigInteger, nullable=False),
        sa.Column("duration", sa.Double),
        sa.Column("started", sa.Text),
        sa.Column("conditions", sa.Text, nullable=False),
        sa.Column("workload", sa.Text, nullable=False),
        sa.Column("metrics", sa.Text, nullable=False),
        sa.UniqueConstraint("run_id", "scenario", "ordinal"),
    )
    op.create_table(
        "source",
        sa.Column("trial_id", sa.Integer, sa.ForeignKey("trial.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("format", sa.Text, nullable=False),
        sa.Column("tool", sa.Text),
        sa.Column("client_version", sa.Text),
        sa.Column("command", sa.Text),
        sa.Column("imported_at", sa.Text, nullable=False),
        sa.UniqueConstraint("sha256", "position"),
    )
    op.create_table(
        "samples",
        sa.Column("trial_id", sa.Integer, sa.ForeignKey("trial.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
