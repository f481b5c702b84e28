"""Who changed what is held, and when."""

import sqlalchemy as sa
from alembic import op

from regress_gate.store.schema import REVISION_TABLE

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "log",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("tool_version", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("log_by_time", "log", ["at"])
    if op.get_bind().dialect.name == "postgresql":
        # Not CURRENT_TIMESTAMP, which is when a transaction began, before it waited for other writers.
        now = "to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
        op.execute(f"ALTER TABLE log ALTER COLUMN at SET DEFAULT {now}, ALTER COLUMN role SET DEFAULT session_user")
        # Who locks this table's row needs the right to update a column of it, and must not change the schema's number.
        op.add_column(REVISION_TABLE, sa.Column("locked", sa.Boolean))
