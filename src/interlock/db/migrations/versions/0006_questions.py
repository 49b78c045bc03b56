"""The questions that tools put to people, and what was answered."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "questions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("call_id", sa.Text, nullable=False),
        sa.Column("intent_id", sa.Text, nullable=False),
        sa.Column("task", sa.Text),
        sa.Column("tool_name", sa.Text, nullable=False),
        sa.Column("mode", sa.Text, nullable=False),
        sa.Column("authority_digest", sa.Text, nullable=False),
        sa.Column("widget", sa.Text, nullable=False),
        sa.Column("document", sa.Text),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("answer", sa.Text),
        sa.Column("close_reason", sa.Text),
        sa.Column("asked_seq", sa.BigInteger, nullable=False),
        sa.Column("asked_us", sa.BigInteger, nullable=False),
        sa.Column("closed_us", sa.BigInteger),
        sa.Column("closed_by", sa.Text),
        sa.UniqueConstraint("intent_id", name="questions_intent"),
    )
    op.create_index("questions_session_status", "questions", ["session_id", "status"])
