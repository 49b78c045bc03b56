"""Who may come in over the network, and a day's refusals and failures without reading the whole log."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_IS_PROBLEM = sa.text("kind IN ('tool_call.denied', 'tool_call.failed', 'agent.failed')")


def upgrade() -> None:
    op.create_table(
        "credentials",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("expires_us", sa.BigInteger),
        sa.Column("used_us", sa.BigInteger),
        sa.Column("ended_us", sa.BigInteger),
        sa.Column("ended_by", sa.Text),
        sa.UniqueConstraint("hash", name="credentials_hash"),
    )
    op.create_index(
        "events_problems", "events", ["time_us"], sqlite_where=_IS_PROBLEM, postgresql_where=_IS_PROBLEM
    )
