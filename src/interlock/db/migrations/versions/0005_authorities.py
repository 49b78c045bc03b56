"""Where in the log each Authority that was ever used is spelled out."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "authorities",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
    )
