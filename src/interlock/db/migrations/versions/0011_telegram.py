"""Where a Telegram bot is: what came in, what each chat talks in, and which messages show what."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "telegram_bots",
        sa.Column("bot_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("next_update", sa.BigInteger, nullable=False),
        sa.Column("updated_us", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "telegram_inbox",
        sa.Column("bot_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("update_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("chat_id", sa.BigInteger, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("received_us", sa.BigInteger, nullable=False),
        sa.Column("task_id", sa.Text),
    )
    op.create_table(
        "telegram_chats",
        sa.Column("bot_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("chat_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("session_id", sa.Text, nullable=False),
    )
    op.create_table(
        "telegram_tasks",
        sa.Column("task_id", sa.Text, primary_key=True),
        sa.Column("bot_id", sa.BigInteger, nullable=False),
        sa.Column("chat_id", sa.BigInteger, nullable=False),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("user_id", sa.BigInteger, nullable=False),
        sa.Column("reply_to", sa.BigInteger),
        sa.Column("shown", sa.Text, nullable=False),
    )
    op.create_table(
        "telegram_questions",
        sa.Column("question_id", sa.Text, primary_key=True),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
    )
