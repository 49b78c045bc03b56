"""The index over the notes in the memory folder: which notes, their passages, their words."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

# Words come ready made, of letters and digits alone, so that nothing is left to a database's own ideas.
SQLITE_WORDS = """
CREATE VIRTUAL TABLE memory_fts USING
fts5(words, content = '', columnsize = 0, detail = none, tokenize = 'ascii')
"""
POSTGRES_WORDS = "CREATE TABLE memory_fts (rowid bigint PRIMARY KEY, words tsvector NOT NULL)"
POSTGRES_WORDS_INDEX = "CREATE INDEX memory_fts_words ON memory_fts USING gin (words)"


def upgrade() -> None:
    row_number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    plain_text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    _folders_and_notes(row_number, plain_text)
    _passages_and_words(row_number, plain_text)
    if op.get_bind().dialect.name == "sqlite":
        op.execute(SQLITE_WORDS)
    else:
        op.execute(POSTGRES_WORDS)
        op.execute(POSTGRES_WORDS_INDEX)


def _folders_and_notes(row_number: sa.types.TypeEngine[Any], plain_text: sa.types.TypeEngine[Any]) -> None:
    op.create_table(
        "memory_folders",
        sa.Column("id", row_number, primary_key=True, autoincrement=True),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("passages", sa.BigInteger, nullable=False),
        sa.Column("numbered", sa.BigInteger, nullable=False),
        sa.Column("used_us", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("place", name="memory_folders_place"),
    )
    op.create_table(
        "memory_notes",
        sa.Column("id", row_number, primary_key=True, autoincrement=False),
        sa.Column("folder_id", sa.BigInteger, nullable=False),
        sa.Column("path", plain_text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.UniqueConstraint("folder_id", "path", name="memory_notes_path"),
    )


def _passages_and_words(row_number: sa.types.TypeEngine[Any], plain_text: sa.types.TypeEngine[Any]) -> None:
    op.create_table(
        "memory_passages",
        sa.Column("id", row_number, primary_key=True, autoincrement=False),
        sa.Column("folder_id", sa.BigInteger, nullable=False),
        sa.Column("note_id", sa.BigInteger, nullable=False),
        sa.Column("line", sa.Integer, nullable=False),
        sa.Column("heading", sa.Text, nullable=False),
        sa.Column("day", sa.Text),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("head_words", sa.Text, nullable=False),
        sa.Column("words", sa.Text, nullable=False),
    )
    op.create_index("memory_passages_note", "memory_passages", ["note_id"])
    op.create_table(
        "memory_words",
        sa.Column("folder_id", sa.BigInteger, primary_key=True),
        sa.Column("word", plain_text, primary_key=True),
        sa.Column("backwards", plain_text, nullable=False),
        sa.Column("passages", sa.BigInteger, nullable=False),
    )
    op.create_index("memory_words_backwards", "memory_words", ["folder_id", "backwards"])
