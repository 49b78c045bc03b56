"""Servers of foreign tools, what they offer, and how it is classed."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "mcp_servers",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("added_by", sa.Text, nullable=False),
        sa.Column("added_us", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "mcp_tools",
        sa.Column("server", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("definition", sa.Text),
        sa.Column("problem", sa.Text, nullable=False),
        sa.Column("is_listed", sa.Integer, nullable=False),
        sa.Column("class", sa.Text),
    )
    op.create_table(
        "mcp_changes",
        sa.Column(
            "version",
            sa.BigInteger().with_variant(sa.Integer, "sqlite"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("server", sa.Text, nullable=False),
        sa.Column("changed_by", sa.Text, nullable=False),
        sa.Column("time_us", sa.BigInteger, nullable=False),
    )
