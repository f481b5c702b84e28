"""How many requests a trial completed may be unknown: some formats that are imported do not say.

A column more and not a null in `completed`: SQLite would have to make the table anew for that, and with it drop what
refers to it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("trial", sa.Column("counted", sa.Boolean))
