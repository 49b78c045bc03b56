"""Who answers in a session."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("agent", sa.Text))
    op.add_column("sessions", sa.Column("model", sa.Text))
