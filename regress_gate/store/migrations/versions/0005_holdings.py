"""What is held of each version, counted, and an index that finds the newest runs: neither asks every trial any more."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "holding",
        sa.Column("build_id", sa.Integer, sa.ForeignKey("build.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("testbed_id", sa.Integer, sa.ForeignKey("testbed.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("suite_id", sa.Integer, sa.ForeignKey("suite.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("runs", sa.BigInteger, nullable=False),
        sa.Column("trials", sa.BigInteger, nullable=False),
        sa.Column("scenarios", sa.BigInteger, nullable=False),
        sa.Column("first_time", sa.Text),
        sa.Column("last_time", sa.Text),
    )
    op.execute(
        """
        INSERT INTO holding (build_id, testbed_id, suite_id, runs, trials, scenarios, first_time, last_time)
        SELECT run.build_id, run.testbed_id, run.suite_id, count(DISTINCT run.id), count(trial.id),
               count(DISTINCT trial.scenario),
               min(coalesce(trial.started, source.imported_at, run.started)),
               max(coalesce(trial.started, source.imported_at, run.started))
        FROM run LEFT JOIN trial ON trial.run_id = run.id LEFT JOIN source ON source.trial_id = trial.id
        GROUP BY run.build_id, run.testbed_id, run.suite_id
        """
    )
    op.drop_index("run_of_testbed", "run")
    op.create_index("run_by_start", "run", ["testbed_id", "suite_id", "started"])
