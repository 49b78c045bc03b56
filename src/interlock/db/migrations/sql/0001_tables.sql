-- Every table of the store. `src/interlock/db/schema.py` says what {BYTES} and the like are in each database.
-- A name that ends in `_us` is a time in microseconds since 1970, in `_ms` one by the clock of leases.

-- only sqlite
PRAGMA application_id = 1229736753;

CREATE TABLE store_info (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

INSERT INTO store_info (key, value) VALUES ('store_id', {RANDOM_ID});

-- The log and its sessions ---------------------------------------------------------------------------

CREATE TABLE sessions (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    opened_by TEXT NOT NULL,
    created_us BIGINT NOT NULL,
    archived_us BIGINT,
    deleted_us BIGINT,
    -- The session's agent, and the model a person chose for it.
    agent TEXT,
    model TEXT
);

-- The searchable text of events: a copy of what a person or a model said.
CREATE TABLE event_texts (
    stream TEXT NOT NULL,
    seq BIGINT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (stream, seq)
);

CREATE TABLE stream_heads (
    stream TEXT NOT NULL PRIMARY KEY,
    seq BIGINT NOT NULL,
    hash {BYTES} NOT NULL,
    time_us BIGINT NOT NULL,
    closed_us BIGINT
);

CREATE INDEX stream_heads_time ON stream_heads (time_us, stream);

INSERT INTO stream_heads (stream, seq, hash, time_us) VALUES ('system', 0, {GENESIS}, 0);

CREATE TABLE events (
    position {NUMBERED},
    -- PostgreSQL fills this in, so that a reader of all streams can stop before open transactions.
    txid BIGINT {DEFAULT_TXID},
    id TEXT NOT NULL,
    stream TEXT NOT NULL,
    seq BIGINT NOT NULL,
    time_us BIGINT NOT NULL,
    task TEXT,
    parent TEXT,
    kind TEXT NOT NULL,
    facts TEXT NOT NULL,
    -- Erased together, except for the hash. An event without content has no content hash.
    content TEXT,
    salt {BYTES},
    content_hash {BYTES},
    prev_hash {BYTES} NOT NULL,
    hash {BYTES} NOT NULL,
    CONSTRAINT events_stream_seq UNIQUE (stream, seq)
);

-- To find where a task begins and ends, and the last event of a kind, without reading a long session. Not for
-- the most frequent kinds (IS_MILESTONE in log/event.py): each entry is one more page for a commit to write.
-- SQLite would make a table of a list in NOT IN for every insertion.
CREATE INDEX events_stream_task ON events (stream, task, seq)
WHERE kind <> 'turn.completed' AND kind <> 'tool_call.started' AND kind <> 'tool_call.completed';

CREATE INDEX events_stream_kind ON events (stream, kind, seq)
WHERE kind <> 'turn.completed' AND kind <> 'tool_call.started' AND kind <> 'tool_call.completed';

-- only postgresql
CREATE INDEX events_txid_position ON events (txid, position);

-- The sums of counted events, for budgets and statistics (log/usage.py).
CREATE TABLE usage (
    session_id TEXT NOT NULL,
    task {SORTED_TEXT} NOT NULL,
    quarter BIGINT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    agent TEXT NOT NULL,
    actor TEXT NOT NULL,
    events BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    milliseconds BIGINT NOT NULL,
    PRIMARY KEY (session_id, task, quarter, kind, name, agent, actor)
);

CREATE INDEX usage_quarter ON usage (quarter);

-- Which process holds a session (`session:ID`) or a Telegram bot (`bot:ID`), until when by the clock of leases.
CREATE TABLE leases (
    name TEXT NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL,
    holder TEXT NOT NULL,
    expires_ms BIGINT NOT NULL
);

-- Where in the system stream each Authority that was ever used is spelled out.
CREATE TABLE authorities (
    digest TEXT NOT NULL PRIMARY KEY,
    seq BIGINT NOT NULL
);

-- Every version is kept, the newest counts.
CREATE TABLE settings_versions (
    version {ROW_NUMBER} NOT NULL PRIMARY KEY,
    document TEXT NOT NULL,
    changed_by TEXT NOT NULL,
    time_us BIGINT NOT NULL
);

-- Questions, tasks and runs --------------------------------------------------------------------------

CREATE TABLE questions (
    id TEXT NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL,
    call_id TEXT NOT NULL,
    -- The call's tool_call.started event. A call asks once.
    intent_id TEXT NOT NULL,
    task TEXT,
    tool_name TEXT NOT NULL,
    mode TEXT NOT NULL,
    authority_digest TEXT NOT NULL,
    widget TEXT NOT NULL,
    document TEXT,
    status TEXT NOT NULL,
    answer TEXT,
    close_reason TEXT,
    asked_seq BIGINT NOT NULL,
    asked_us BIGINT NOT NULL,
    closed_us BIGINT,
    closed_by TEXT,
    CONSTRAINT questions_intent UNIQUE (intent_id)
);

CREATE INDEX questions_session_status ON questions (session_id, status);

CREATE TABLE tasks (
    id TEXT NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL,
    -- Its message, which also orders the tasks of a session.
    message_seq BIGINT NOT NULL,
    status TEXT NOT NULL,
    mode TEXT,
    who TEXT NOT NULL,
    -- The token or browser that sent it: its tasks end when it is revoked.
    credential_id TEXT,
    created_us BIGINT NOT NULL,
    started_us BIGINT,
    ended_us BIGINT,
    attempts BIGINT NOT NULL,
    -- How often its worker was lost in the middle of it.
    interruptions BIGINT NOT NULL,
    cancel_requested_us BIGINT,
    cancel_requested_by TEXT,
    reason TEXT,
    question_id TEXT,
    retry_of TEXT,
    -- The task.queued event, and the task.started event of the last attempt.
    queued_event TEXT NOT NULL,
    started_event TEXT,
    CONSTRAINT tasks_session_message UNIQUE (session_id, message_seq)
);

CREATE INDEX tasks_session_status ON tasks (session_id, status, message_seq);

CREATE INDEX tasks_status_created ON tasks (status, created_us);

CREATE INDEX tasks_created ON tasks (created_us);

-- A run of a workflow is a session of kind 'run'; `definition` is the workflow at its start, as text.
CREATE TABLE runs (
    session_id TEXT NOT NULL PRIMARY KEY,
    workflow TEXT NOT NULL,
    digest TEXT NOT NULL,
    mode TEXT NOT NULL,
    status TEXT NOT NULL,
    agents TEXT NOT NULL,
    definition TEXT,
    input TEXT,
    outcome TEXT,
    reason TEXT,
    started_by TEXT NOT NULL,
    credential_id TEXT,
    started_event TEXT NOT NULL,
    created_us BIGINT NOT NULL,
    ended_us BIGINT
);

CREATE INDEX runs_created ON runs (created_us);

-- Every visit of a run to a node; a step's work is its task.
CREATE TABLE run_nodes (
    session_id TEXT NOT NULL,
    number BIGINT NOT NULL,
    frame TEXT NOT NULL,
    node TEXT NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    entered_event TEXT NOT NULL,
    visit BIGINT NOT NULL,
    task_id TEXT,
    outcome TEXT,
    summary TEXT,
    artifacts TEXT,
    next TEXT,
    label TEXT,
    reason TEXT,
    retry_of BIGINT,
    entered_us BIGINT NOT NULL,
    ended_us BIGINT,
    PRIMARY KEY (session_id, number)
);

CREATE INDEX run_nodes_task ON run_nodes (task_id);

-- External tools -------------------------------------------------------------------------------------

-- Servers, as the operator described them.
CREATE TABLE mcp_servers (
    id TEXT NOT NULL PRIMARY KEY,
    definition TEXT NOT NULL,
    added_by TEXT NOT NULL,
    added_us BIGINT NOT NULL
);

-- Their last seen tools, and the classes given to them.
CREATE TABLE mcp_tools (
    server TEXT NOT NULL,
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    definition TEXT,
    problem TEXT NOT NULL,
    is_listed BIGINT NOT NULL,
    class TEXT,
    PRIMARY KEY (server, name)
);

-- One row for each change of the two above: a copy is current if it has the newest number.
CREATE TABLE mcp_changes (
    version {ROW_NUMBER} NOT NULL PRIMARY KEY,
    server TEXT NOT NULL,
    changed_by TEXT NOT NULL,
    time_us BIGINT NOT NULL
);

-- What belongs to this store alone: no backup has it (LEFT_OUT in backup_and_restore.py) -------------

CREATE TABLE credentials (
    id TEXT NOT NULL PRIMARY KEY,
    -- 'token' for scripts, 'code' for the link that is opened once, 'browser' for the cookie it gives.
    kind TEXT NOT NULL,
    -- The actor's name in events.
    name TEXT NOT NULL,
    -- sha256 of the secret, which is not stored.
    hash {BYTES} NOT NULL,
    created_us BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    expires_us BIGINT,
    used_us BIGINT,
    ended_us BIGINT,
    ended_by TEXT,
    CONSTRAINT credentials_hash UNIQUE (hash)
);

CREATE TABLE telegram_bots (
    bot_id BIGINT NOT NULL PRIMARY KEY,
    -- The first update not yet received, and when that was last known.
    next_update BIGINT NOT NULL,
    updated_us BIGINT NOT NULL
);

-- Received updates that are not processed yet.
CREATE TABLE telegram_inbox (
    bot_id BIGINT NOT NULL,
    update_id BIGINT NOT NULL,
    chat_id BIGINT NOT NULL,
    document TEXT NOT NULL,
    received_us BIGINT NOT NULL,
    -- Set before the task is queued: the task it becomes, with others or alone.
    task_id TEXT,
    PRIMARY KEY (bot_id, update_id)
);

CREATE TABLE telegram_chats (
    bot_id BIGINT NOT NULL,
    chat_id BIGINT NOT NULL,
    session_id TEXT NOT NULL,
    PRIMARY KEY (bot_id, chat_id)
);

-- Tasks whose end was not sent to their chat yet, and the messages that show them.
CREATE TABLE telegram_tasks (
    task_id TEXT NOT NULL PRIMARY KEY,
    bot_id BIGINT NOT NULL,
    chat_id BIGINT NOT NULL,
    session_id TEXT NOT NULL,
    user_id BIGINT NOT NULL,
    -- The message that it answers, in groups.
    reply_to BIGINT,
    shown TEXT NOT NULL
);

-- The progress of a person in a question with several steps.
CREATE TABLE telegram_questions (
    question_id TEXT NOT NULL PRIMARY KEY,
    task_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    state TEXT NOT NULL
);
