"""Alembic's entry: applies the migrations on the connection that `store.database` hands over, in its transaction."""

from alembic import context

from regress_gate.store.schema import REVISION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    version_table=REVISION_TABLE,
    # The transaction is the caller's: SQLite's data definition takes part in it as soon as BEGIN is sent explicitly.
    transactional_ddl=True,
)
context.run_migrations()
