"""Every table of the store but the mode of a session."""

from interlock.db.migrations import run_sql

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_sql("0001_tables")
