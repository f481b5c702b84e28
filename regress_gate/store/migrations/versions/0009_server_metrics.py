"""What a trial's server counted meanwhile."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("trial", sa.Column("server_metrics", sa.Text))
