"""The tables, in SQLAlchemy Core: they are only used for bulk inserts and scans, so there is no ORM.

A change of a table needs a new file in `migrations/versions/` and its name at the end of `REVISIONS`. Identity columns
never hold NULL (a unique constraint treats two NULLs as different): unknown parts of a build are ''. Facts and metrics
are JSON in text columns, written and read by orjson.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    Join,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010")
"""All released schemas, the oldest first."""

REVISION_TABLE = "regress_gate_revision"
"""Alembic's table under its own name, because a server's database may be shared with other programs."""

metadata = MetaData()

revision = Table(
    REVISION_TABLE,
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name=f"{REVISION_TABLE}_pkc"),
)
"""Alembic's table, as Alembic creates it. Writers lock its row in databases without a single-writer lock."""

testbed = Table(
    "testbed",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("facts", Text, nullable=False),
)

suite = Table(
    "suite",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("version", Text, nullable=False),
    UniqueConstraint("name", "version"),
)

build = Table(
    "build",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("number", Text, nullable=False),
    Column("commit_id", Text, nullable=False),
    Column("variant", Text, nullable=False),
    UniqueConstraint("number", "commit_id", "variant"),
)

run = Table(
    "run",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("build_id", ForeignKey("build.id"), nullable=False),
    Column("testbed_id", ForeignKey("testbed.id"), nullable=False),
    Column("suite_id", ForeignKey("suite.id"), nullable=False),
    Column("label", Text, nullable=False),
    Column("started", Text),
    Column("conditions", Text, nullable=False),
    Column("libraries", Text, nullable=False),
    Column("metrics", Text, nullable=False),
    Column("measured", Text),
    UniqueConstraint("build_id", "testbed_id", "suite_id", "label"),
    Index("run_by_start", "testbed_id", "suite_id", "started"),
    # `run:17` must not mean another run after the 17th is pruned.
    sqlite_autoincrement=True,
)

trial = Table(
    "trial",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    Column("scenario", Text, nullable=False),
    Column("ordinal", BigInteger, nullable=False),
    Column("completed", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("duration", Double),
    Column("started", Text),
    Column("conditions", Text, nullable=False),
    Column("workload", Text, nullable=False),
    Column("metrics", Text, nullable=False),
    # False: the source has no count, and `completed` is 0. NULL in rows that are older than this column.
    Column("counted", Boolean),
    # The first key of `measurement.same_measurement`; NULL for numbers that may be equal by chance.
    Column("numbers", Text),
    # What the server counted meanwhile; NULL where it is not known.
    Column("server_metrics", Text),
    UniqueConstraint("run_id", "scenario", "ordinal"),
    Index("trial_by_numbers", "numbers"),
)

source = Table(
    "source",
    metadata,
    Column("trial_id", ForeignKey("trial.id", ondelete="CASCADE"), primary_key=True),
    Column("sha256", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("path", Text, nullable=False),
    Column("format", Text, nullable=False),
    Column("tool", Text),
    Column("client_version", Text),
    Column("command", Text),
    Column("imported_at", Text, nullable=False),
    UniqueConstraint("sha256", "position"),
)

samples = Table(
    "samples",
    metadata,
    Column("trial_id", ForeignKey("trial.id", ondelete="CASCADE"), primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
"""A table of its own, so that a scan of trials does not read the blobs."""

outputs = Table(
    "outputs",
    metadata,
    Column("run_id", ForeignKey("run.id", ondelete="CASCADE"), primary_key=True),
    Column("data", Text, nullable=False),
)
"""A table of its own, so that a list of runs does not read the answers."""

holding = Table(
    "holding",
    metadata,
    Column("build_id", ForeignKey("build.id", ondelete="CASCADE"), primary_key=True),
    Column("testbed_id", ForeignKey("testbed.id", ondelete="CASCADE"), primary_key=True),
    Column("suite_id", ForeignKey("suite.id", ondelete="CASCADE"), primary_key=True),
    Column("runs", BigInteger, nullable=False),
    Column("trials", BigInteger, nullable=False),
    Column("scenarios", BigInteger, nullable=False),
    Column("first_time", Text),
    Column("last_time", Text),
)
"""What is held of each version, testbed and suite, counted: a list of versions must not read every trial. Kept by every
transaction that adds or deletes runs (`rows.update_holdings`)."""

build_config = Table(
    "build_config",
    metadata,
    Column("build_id", ForeignKey("build.id", ondelete="CASCADE"), primary_key=True),
    Column("data", Text, nullable=False),
)

experiment = Table(
    "experiment",
    metadata,
    Column("id", Text, primary_key=True),
    Column("begun", Text, nullable=False),
    Column("plan", Text, nullable=False),
    Column("ended", Text),
)
"""Runs have no foreign key to it; they name their experiment in `measured` and are imported and exported without it."""

pin = Table(
    "pin",
    metadata,
    Column("number", Text, primary_key=True),
    Column("commit_id", Text, primary_key=True),
    Column("variant", Text, primary_key=True),
    Column("pinned_at", Text, nullable=False),
)
"""Has the parts of a version, no foreign key to a build: a version can be pinned before it is measured."""


comparison = Table(
    "comparison",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("created", Text, nullable=False),
    Column("testbed", Text, nullable=False),
    Column("suite", Text, nullable=False),
    Column("suite_version", Text, nullable=False),
    Column("baseline", Text, nullable=False),
    Column("candidate", Text, nullable=False),
    Column("decision", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("comparison_by_place", "testbed", "suite", "suite_version", "created"),
)
"""Results of `compare`. Names and no foreign keys: shipped versions are compared too, and have no rows here. The result
itself, compressed, stands last, so that a list does not read it."""


def joined_runs() -> Join:
    """Runs with the build, testbed and suite that identify them."""
    return run.join(build).join(testbed).join(suite)


look = Table(
    "look",
    metadata,
    Column("name", Text, primary_key=True),
    Column("place", Text, nullable=False),
    Column("begun", Text, nullable=False),
    Column("ended", Text),
    Column("candidate", Text, nullable=False),
    Column("data", Text, nullable=False),
    Index("look_by_place", "place", "begun"),
)
"""Looks of the watch. What was found is JSON: a look is read as a whole, and nothing is searched in it."""

log = Table(
    "log",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("tool_version", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("details", Text, nullable=False),
    Index("log_by_time", "at"),
    # The number of an entry that was taken away must not be given again.
    sqlite_autoincrement=True,
)
"""Who changed what is held, and when; what was changed is JSON, in which nothing is searched. On PostgreSQL the server
fills in `at` and `role`, by defaults of the migration, so that roles need no right to write them."""
