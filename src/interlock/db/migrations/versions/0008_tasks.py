"""The tasks: one for each message that is to be worked on, and what became of it."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "tasks",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("message_seq", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("mode", sa.Text),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("credential_id", sa.Text),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("started_us", sa.BigInteger),
        sa.Column("ended_us", sa.BigInteger),
        sa.Column("attempts", sa.BigInteger, nullable=False),
        sa.Column("interruptions", sa.BigInteger, nullable=False),
        sa.Column("cancel_requested_us", sa.BigInteger),
        sa.Column("cancel_requested_by", sa.Text),
        sa.Column("reason", sa.Text),
        sa.Column("question_id", sa.Text),
        sa.Column("retry_of", sa.Text),
        sa.Column("queued_event", sa.Text, nullable=False),
        sa.Column("started_event", sa.Text),
        sa.UniqueConstraint("session_id", "message_seq", name="tasks_session_message"),
    )
    op.create_index("tasks_session_status", "tasks", ["session_id", "status", "message_seq"])
    op.create_index("tasks_status_created", "tasks", ["status", "created_us"])
    op.create_index("tasks_created", "tasks", ["created_us"])
