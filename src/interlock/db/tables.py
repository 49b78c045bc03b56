"""The present schema; `migrations/` leads a store to it, and a test compares the two."""

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData()

# SQLite numbers rows by itself only for a column declared exactly INTEGER PRIMARY KEY.
RowNumber = BigInteger().with_variant(Integer, "sqlite")

# Sorts by code point, as in SQLite.
PlainText = Text().with_variant(Text(collation="C"), "postgresql")

store_info = Table(
    *("store_info", metadata),
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("opened_by", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("archived_us", BigInteger),
    Column("deleted_us", BigInteger),
    Column("mode", Text, nullable=False, server_default=text("'chat_safe'")),
    # The session's agent, and the model a person chose for it.
    Column("agent", Text),
    Column("model", Text),
)

messages = Table(
    "messages",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("role", Text, nullable=False),
    Column("content", Text),
    Column("tool_calls", Text),
    Column("tool_call_id", Text),
    Column("time_us", BigInteger, nullable=False),
)

stream_heads = Table(
    "stream_heads",
    metadata,
    Column("stream", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("time_us", BigInteger, nullable=False),
    Column("closed_us", BigInteger),
    Index("stream_heads_time", "time_us", "stream"),
)

events = Table(
    "events",
    metadata,
    Column("position", RowNumber, primary_key=True, autoincrement=True),
    # PostgreSQL fills this in, so that a reader of all streams can stop before open transactions.
    Column("txid", BigInteger),
    Column("id", Text, nullable=False),
    Column("stream", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("time_us", BigInteger, nullable=False),
    Column("task", Text),
    Column("parent", Text),
    Column("kind", Text, nullable=False),
    Column("facts", Text, nullable=False),
    # Erased together, except for the hash. An event without content has no content hash.
    Column("content", Text),
    Column("salt", LargeBinary),
    Column("content_hash", LargeBinary),
    Column("prev_hash", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    UniqueConstraint("stream", "seq", name="events_stream_seq"),
    # To find the events of a task, and the last event of a kind, without reading a long session.
    Index("events_stream_task", "stream", "task", "seq"),
    Index("events_stream_kind", "stream", "kind", "seq"),
    Index("events_txid_position", "txid", "position").ddl_if(dialect="postgresql"),
)

# What events count up to, for budgets and statistics (log/usage.py).
usage = Table(
    "usage",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("task", PlainText, primary_key=True),
    Column("quarter", BigInteger, primary_key=True, autoincrement=False),
    *(Column(name, Text, primary_key=True) for name in ("kind", "name", "agent", "actor")),
    *(
        Column(name, BigInteger, nullable=False)
        for name in ("events", "calls", "input_tokens", "output_tokens", "milliseconds")
    ),
    Index("usage_quarter", "quarter"),
)

session_leases = Table(
    "session_leases",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("token", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
)

authorities = Table(
    *("authorities", metadata),
    Column("digest", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),
)

questions = Table(
    "questions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("session_id", Text, nullable=False),
    Column("call_id", Text, nullable=False),
    # The call's tool_call.started event. A call asks once.
    Column("intent_id", Text, nullable=False),
    Column("task", Text),
    Column("tool_name", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("authority_digest", Text, nullable=False),
    Column("widget", Text, nullable=False),
    Column("document", Text),
    Column("status", Text, nullable=False),
    Column("answer", Text),
    Column("close_reason", Text),
    Column("asked_seq", BigInteger, nullable=False),
    Column("asked_us", BigInteger, nullable=False),
    Column("closed_us", BigInteger),
    Column("closed_by", Text),
    UniqueConstraint("intent_id", name="questions_intent"),
    Index("questions_session_status", "session_id", "status"),
)

tasks = Table(
    "tasks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("session_id", Text, nullable=False),
    # Its message, which also orders the tasks of a session.
    Column("message_seq", BigInteger, nullable=False),
    Column("status", Text, nullable=False),
    Column("mode", Text),
    Column("who", Text, nullable=False),
    # The token or browser that sent it: its tasks end when it is revoked.
    Column("credential_id", Text),
    Column("created_us", BigInteger, nullable=False),
    Column("started_us", BigInteger),
    Column("ended_us", BigInteger),
    Column("attempts", BigInteger, nullable=False),
    # How often its worker was lost in the middle of it.
    Column("interruptions", BigInteger, nullable=False),
    Column("cancel_requested_us", BigInteger),
    Column("cancel_requested_by", Text),
    Column("reason", Text),
    Column("question_id", Text),
    Column("retry_of", Text),
    # The task.queued event, and the task.started event of the last attempt.
    Column("queued_event", Text, nullable=False),
    Column("started_event", Text),
    UniqueConstraint("session_id", "message_seq", name="tasks_session_message"),
    Index("tasks_session_status", "session_id", "status", "message_seq"),
    Index("tasks_status_created", "status", "created_us"),
    Index("tasks_created", "created_us"),
)

# A run of a workflow is a session of kind 'run'; `definition` is the workflow at its start, as text.
runs = Table(
    "runs",
    metadata,
    Column("session_id", Text, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("workflow", "digest", "mode", "status", "agents")),
    *(Column(name, Text) for name in ("definition", "input", "outcome", "reason")),
    Column("started_by", Text, nullable=False),
    Column("credential_id", Text),
    Column("started_event", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("ended_us", BigInteger),
    Index("runs_created", "created_us"),
)

# Every visit of a run to a node; a step's work is its task.
run_nodes = Table(
    "run_nodes",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    *(Column(name, Text, nullable=False) for name in ("frame", "node", "kind", "status", "entered_event")),
    Column("visit", BigInteger, nullable=False),
    Column("task_id", Text),
    *(Column(name, Text) for name in ("outcome", "summary", "artifacts", "next", "label", "reason")),
    Column("retry_of", BigInteger),
    Column("entered_us", BigInteger, nullable=False),
    Column("ended_us", BigInteger),
    Index("run_nodes_task", "task_id"),
)

settings_versions = Table(
    "settings_versions",
    metadata,
    Column("version", RowNumber, primary_key=True, autoincrement=False),
    Column("document", Text, nullable=False),
    Column("changed_by", Text, nullable=False),
    Column("time_us", BigInteger, nullable=False),
)

# Servers of external tools, as the operator described them.
mcp_servers = Table(
    "mcp_servers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("definition", Text, nullable=False),
    Column("added_by", Text, nullable=False),
    Column("added_us", BigInteger, nullable=False),
)

# Their last seen tools, and the classes given to them.
mcp_tools = Table(
    "mcp_tools",
    metadata,
    Column("server", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("hash", Text, nullable=False),
    Column("definition", Text),
    Column("problem", Text, nullable=False),
    Column("is_listed", Integer, nullable=False),
    Column("class", Text),
)

# One row for each change of the two above: a copy is current if it has the newest number.
mcp_changes = Table(
    "mcp_changes",
    metadata,
    Column("version", RowNumber, primary_key=True, autoincrement=False),
    Column("server", Text, nullable=False),
    Column("changed_by", Text, nullable=False),
    Column("time_us", BigInteger, nullable=False),
)

# Credentials belong to this store: a backup leaves them out, and a restore begins without any.
PRIVATE = {"private": True}

credentials = Table(
    "credentials",
    metadata,
    Column("id", Text, primary_key=True),
    # 'token' for scripts, 'code' for the link that is opened once, 'browser' for the cookie it gives.
    Column("kind", Text, nullable=False),
    # The actor's name in events.
    Column("name", Text, nullable=False),
    # sha256 of the secret, which is not stored.
    Column("hash", LargeBinary, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_us", BigInteger),
    Column("used_us", BigInteger),
    Column("ended_us", BigInteger),
    Column("ended_by", Text),
    UniqueConstraint("hash", name="credentials_hash"),
    info=PRIVATE,
)

# Derived from the notes in the memory directory; a backup leaves it out. The searchable words are in
# `memory_fts`, which has a different form in each database (migration 0007).
DERIVED = {"derived": True}

memory_folders = Table(
    "memory_folders",
    metadata,
    Column("id", RowNumber, primary_key=True, autoincrement=True),
    Column("place", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("passages", BigInteger, nullable=False),
    # The count of notes ever numbered; numbers are not reused.
    Column("numbered", BigInteger, nullable=False),
    Column("used_us", BigInteger, nullable=False),
    UniqueConstraint("place", name="memory_folders_place"),
    info=DERIVED,
)

memory_notes = Table(
    "memory_notes",
    metadata,
    Column("id", RowNumber, primary_key=True, autoincrement=False),
    Column("folder_id", BigInteger, nullable=False),
    Column("path", PlainText, nullable=False),
    Column("state", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("title", Text, nullable=False),
    UniqueConstraint("folder_id", "path", name="memory_notes_path"),
    info=DERIVED,
)

memory_passages = Table(
    "memory_passages",
    metadata,
    Column("id", RowNumber, primary_key=True, autoincrement=False),
    Column("folder_id", BigInteger, nullable=False),
    Column("note_id", BigInteger, nullable=False),
    Column("line", Integer, nullable=False),
    Column("heading", Text, nullable=False),
    Column("day", Text),
    Column("text", Text, nullable=False),
    Column("head_words", Text, nullable=False),
    Column("words", Text, nullable=False),
    Index("memory_passages_note", "note_id"),
    info=DERIVED,
)

memory_words = Table(
    "memory_words",
    metadata,
    Column("folder_id", BigInteger, primary_key=True),
    Column("word", PlainText, primary_key=True),
    Column("backwards", PlainText, nullable=False),
    Column("passages", BigInteger, nullable=False),
    Index("memory_words_backwards", "folder_id", "backwards"),
    info=DERIVED,
)

# The bot's state in its chats is private too: a restored copy must not send messages there.
telegram_bots = Table(
    "telegram_bots",
    metadata,
    Column("bot_id", BigInteger, primary_key=True, autoincrement=False),
    # The first update not yet received, and when that was last known.
    Column("next_update", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
    info=PRIVATE,
)

# Which process operates a bot, until when by the clock of leases.
telegram_leases = Table(
    "telegram_leases",
    metadata,
    Column("bot_id", BigInteger, primary_key=True, autoincrement=False),
    Column("token", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
    info=PRIVATE,
)

# Received updates that are not processed yet.
telegram_inbox = Table(
    "telegram_inbox",
    metadata,
    Column("bot_id", BigInteger, primary_key=True, autoincrement=False),
    Column("update_id", BigInteger, primary_key=True, autoincrement=False),
    Column("chat_id", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
    Column("received_us", BigInteger, nullable=False),
    # Set before the task is queued: the task it becomes, with others or alone.
    Column("task_id", Text),
    info=PRIVATE,
)

telegram_chats = Table(
    "telegram_chats",
    metadata,
    Column("bot_id", BigInteger, primary_key=True, autoincrement=False),
    Column("chat_id", BigInteger, primary_key=True, autoincrement=False),
    Column("session_id", Text, nullable=False),
    info=PRIVATE,
)

# Tasks whose end was not sent to their chat yet, and the messages that show them.
telegram_tasks = Table(
    "telegram_tasks",
    metadata,
    Column("task_id", Text, primary_key=True),
    Column("bot_id", BigInteger, nullable=False),
    Column("chat_id", BigInteger, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("user_id", BigInteger, nullable=False),
    # The message that it answers, in groups.
    Column("reply_to", BigInteger),
    Column("shown", Text, nullable=False),
    info=PRIVATE,
)

# The progress of a person in a question with several steps.
telegram_questions = Table(
    "telegram_questions",
    metadata,
    Column("question_id", Text, primary_key=True),
    Column("task_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("state", Text, nullable=False),
    info=PRIVATE,
)
