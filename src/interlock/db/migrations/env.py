"""Run by Alembic for every upgrade; the caller brings the connection and its transaction."""

from alembic import context

from interlock.db.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
