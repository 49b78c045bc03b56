"""Sessions and the hash-chained log."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

APPLICATION_ID = 0x494C4B31


def upgrade() -> None:
    on_postgres = op.get_bind().dialect.name == "postgresql"
    if not on_postgres:
        op.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    info = op.create_table(
        "store_info",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("opened_by", sa.Text, nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("archived_us", sa.BigInteger),
        sa.Column("deleted_us", sa.BigInteger),
    )
    op.create_table(
        "event_texts",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
    )
    heads = op.create_table(
        "stream_heads",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("time_us", sa.BigInteger, nullable=False),
        sa.Column("closed_us", sa.BigInteger),
    )
    _create_events(on_postgres=on_postgres)
    op.bulk_insert(info, [{"key": "store_id", "value": secrets.token_hex(16)}])
    op.bulk_insert(heads, [{"stream": "system", "seq": 0, "hash": b"\0" * 32, "time_us": 0}])


def _create_events(*, on_postgres: bool) -> None:
    transaction_id = sa.text("CAST(CAST(pg_current_xact_id() AS text) AS bigint)")
    op.create_table(
        "events",
        sa.Column(
            "position",
            sa.BigInteger().with_variant(sa.Integer, "sqlite"),
            primary_key=True,
            autoincrement=True,
        ),
        sa.Column("txid", sa.BigInteger, server_default=transaction_id if on_postgres else None),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("time_us", sa.BigInteger, nullable=False),
        sa.Column("task", sa.Text),
        sa.Column("parent", sa.Text),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("content", sa.Text),
        sa.Column("salt", sa.LargeBinary),
        sa.Column("content_hash", sa.LargeBinary),
        sa.Column("prev_hash", sa.LargeBinary, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("stream", "seq", name="events_stream_seq"),
    )
    if on_postgres:
        op.create_index("events_txid_position", "events", ["txid", "position"])
