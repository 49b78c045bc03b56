"""A session has a mode. Every session that existed before gets `chat_safe` (ADR 0025, 0026)."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column(
        "sessions",
        sa.Column("mode", sa.Text, nullable=False, server_default=sa.text("'chat_safe'")),
    )
