"""The runs of workflows, and every node that each of them came to."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("workflow", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("mode", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("agents", sa.Text, nullable=False),
        sa.Column("definition", sa.Text),
        sa.Column("input", sa.Text),
        sa.Column("outcome", sa.Text),
        sa.Column("reason", sa.Text),
        sa.Column("started_by", sa.Text, nullable=False),
        sa.Column("credential_id", sa.Text),
        sa.Column("started_event", sa.Text, nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("ended_us", sa.BigInteger),
    )
    op.create_index("runs_created", "runs", ["created_us"])
    op.create_table(
        "run_nodes",
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("frame", sa.Text, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("entered_event", sa.Text, nullable=False),
        sa.Column("visit", sa.BigInteger, nullable=False),
        sa.Column("task_id", sa.Text),
        sa.Column("outcome", sa.Text),
        sa.Column("summary", sa.Text),
        sa.Column("artifacts", sa.Text),
        sa.Column("next", sa.Text),
        sa.Column("label", sa.Text),
        sa.Column("reason", sa.Text),
        sa.Column("retry_of", sa.BigInteger),
        sa.Column("entered_us", sa.BigInteger, nullable=False),
        sa.Column("ended_us", sa.BigInteger),
    )
    op.create_index("run_nodes_task", "run_nodes", ["task_id"])
