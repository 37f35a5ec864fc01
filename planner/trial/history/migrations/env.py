"""Run by alembic for each upgrade: on the connection, and in the transaction, of its caller."""

from alembic import context

from planner.trial.history.schema import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
context.run_migrations()
