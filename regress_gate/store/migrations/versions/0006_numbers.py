"""By which numbers a trial is found again: the same numbers are one measurement, whatever file they came in.

The rule is repeated here, because a migration must do the same in every later release.
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_BATCH = 5000
_DIGITS = 10
_FIRST = (
    "ttft_mean", "tpot_mean", "e2el_mean", "itl_mean", "output_throughput", "request_throughput", "total_throughput",
    "duration", "ttft_median", "tpot_median", "e2el_median", "itl_median", "batch_latency_mean", "batch_throughput",
)  # fmt: skip


def upgrade() -> None:
    op.add_column("trial", sa.Column("numbers", sa.Text))
    trial = sa.table("trial", sa.column("id"), sa.column("duration"), sa.column("metrics"), sa.column("numbers"))
    connection, last = op.get_bind(), 0
    while True:
        query = sa.select(trial.c.id, trial.c.duration, trial.c.metrics).where(trial.c.id > last)
        rows = connection.execute(query.order_by(trial.c.id).limit(_BATCH)).all()
        if not rows:
            break
        last = rows[-1][0]
        found = [{"of": id_, "key": key} for id_, duration, metrics in rows if (key := _key(duration, metrics))]
        if found:
            change = sa.update(trial).where(trial.c.id == sa.bindparam("of")).values(numbers=sa.bindparam("key"))
            connection.execute(change, found)
    op.create_index("trial_by_numbers", "trial", ["numbers"])


def _key(duration: float | None, metrics: str) -> str | None:
    values = {"duration": duration} | json.loads(metrics)
    for name in _FIRST:
        value = values.get(name)
        if isinstance(value, int | float) and value > 0:
            digits = f"{value:.11e}".partition("e")[0].replace(".", "").rstrip("0")
            if len(digits) >= _DIGITS:
                return f"{name}={value:.9e}"
    return None
