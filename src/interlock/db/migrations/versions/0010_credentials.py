"""Who may come in over the network."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


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
