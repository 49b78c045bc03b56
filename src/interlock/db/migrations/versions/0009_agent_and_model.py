"""Who answers in a session, and what the turns of a day used, without reading the whole log for it."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_IS_TURN = sa.text("kind = 'turn.completed'")


def upgrade() -> None:
    op.add_column("sessions", sa.Column("agent", sa.Text))
    op.add_column("sessions", sa.Column("model", sa.Text))
    op.create_index("events_turns", "events", ["time_us"], sqlite_where=_IS_TURN, postgresql_where=_IS_TURN)
