"""Indexes for what is looked at often: a task's events, the events of a kind, the newest sessions."""

from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.create_index("events_stream_task", "events", ["stream", "task", "seq"])
    op.create_index("events_stream_kind", "events", ["stream", "kind", "seq"])
    op.create_index("stream_heads_time", "stream_heads", ["time_us", "stream"])
    op.create_index("tasks_ended", "tasks", ["ended_us"])
