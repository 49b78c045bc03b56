"""The mode of a session (ADR 0025, 0026)."""

from interlock.db.migrations import run_sql

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_sql("0002_session_mode")
