"""What is looked at often: a task's events, the events of a kind, the newest sessions, and usage."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.create_index("events_stream_task", "events", ["stream", "task", "seq"])
    op.create_index("events_stream_kind", "events", ["stream", "kind", "seq"])
    op.create_index("stream_heads_time", "stream_heads", ["time_us", "stream"])
    plain_text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "usage",
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("task", plain_text, primary_key=True),
        sa.Column("quarter", sa.BigInteger, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Text, primary_key=True) for name in ("kind", "name", "agent", "actor")),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in ("events", "calls", "input_tokens", "output_tokens", "milliseconds")
        ),
    )
    op.create_index("usage_quarter", "usage", ["quarter"])
