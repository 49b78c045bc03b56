PRAGMA application_id = 1229736753;

CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE store_info (
	"key" TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);

CREATE TABLE sessions (
	id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	title TEXT NOT NULL, 
	opened_by TEXT NOT NULL, 
	created_us BIGINT NOT NULL, 
	archived_us BIGINT, 
	deleted_us BIGINT, mode TEXT DEFAULT 'chat_safe' NOT NULL, agent TEXT, model TEXT, 
	PRIMARY KEY (id)
);

CREATE TABLE messages (
	session_id TEXT NOT NULL, 
	seq BIGINT NOT NULL, 
	role TEXT NOT NULL, 
	content TEXT, 
	tool_calls TEXT, 
	tool_call_id TEXT, 
	time_us BIGINT NOT NULL, 
	PRIMARY KEY (session_id, seq)
);

CREATE TABLE stream_heads (
	stream TEXT NOT NULL, 
	seq BIGINT NOT NULL, 
	hash BLOB NOT NULL, 
	time_us BIGINT NOT NULL, 
	closed_us BIGINT, 
	PRIMARY KEY (stream)
);

CREATE TABLE events (
	position INTEGER NOT NULL, 
	txid BIGINT, 
	id TEXT NOT NULL, 
	stream TEXT NOT NULL, 
	seq BIGINT NOT NULL, 
	time_us BIGINT NOT NULL, 
	task TEXT, 
	parent TEXT, 
	kind TEXT NOT NULL, 
	facts TEXT NOT NULL, 
	content TEXT, 
	salt BLOB, 
	content_hash BLOB, 
	prev_hash BLOB NOT NULL, 
	hash BLOB NOT NULL, 
	PRIMARY KEY (position), 
	CONSTRAINT events_stream_seq UNIQUE (stream, seq)
);

CREATE TABLE session_leases (
	session_id TEXT NOT NULL, 
	token BIGINT NOT NULL, 
	holder TEXT NOT NULL, 
	expires_ms BIGINT NOT NULL, 
	PRIMARY KEY (session_id)
);

CREATE TABLE settings_versions (
	version INTEGER NOT NULL, 
	document TEXT NOT NULL, 
	changed_by TEXT NOT NULL, 
	time_us BIGINT NOT NULL, 
	PRIMARY KEY (version)
);

CREATE TABLE authorities (
	digest TEXT NOT NULL, 
	seq BIGINT NOT NULL, 
	PRIMARY KEY (digest)
);

CREATE TABLE questions (
	id TEXT NOT NULL, 
	session_id TEXT NOT NULL, 
	call_id TEXT NOT NULL, 
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
	PRIMARY KEY (id), 
	CONSTRAINT questions_intent UNIQUE (intent_id)
);

CREATE INDEX questions_session_status ON questions (session_id, status);

CREATE TABLE memory_folders (
	id INTEGER NOT NULL, 
	place TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	generation BIGINT NOT NULL, 
	passages BIGINT NOT NULL, 
	numbered BIGINT NOT NULL, 
	used_us BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT memory_folders_place UNIQUE (place)
);

CREATE TABLE memory_notes (
	id INTEGER NOT NULL, 
	folder_id BIGINT NOT NULL, 
	path TEXT NOT NULL, 
	state TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	title TEXT NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT memory_notes_path UNIQUE (folder_id, path)
);

CREATE TABLE memory_passages (
	id INTEGER NOT NULL, 
	folder_id BIGINT NOT NULL, 
	note_id BIGINT NOT NULL, 
	line INTEGER NOT NULL, 
	heading TEXT NOT NULL, 
	day TEXT, 
	text TEXT NOT NULL, 
	head_words TEXT NOT NULL, 
	words TEXT NOT NULL, 
	PRIMARY KEY (id)
);

CREATE INDEX memory_passages_note ON memory_passages (note_id);

CREATE TABLE memory_words (
	folder_id BIGINT NOT NULL, 
	word TEXT NOT NULL, 
	backwards TEXT NOT NULL, 
	passages BIGINT NOT NULL, 
	PRIMARY KEY (folder_id, word)
);

CREATE INDEX memory_words_backwards ON memory_words (folder_id, backwards);

CREATE VIRTUAL TABLE memory_fts USING
fts5(words, content = '', columnsize = 0, detail = none, tokenize = 'ascii');

CREATE TABLE tasks (
	id TEXT NOT NULL, 
	session_id TEXT NOT NULL, 
	message_seq BIGINT NOT NULL, 
	status TEXT NOT NULL, 
	mode TEXT, 
	who TEXT NOT NULL, 
	credential_id TEXT, 
	created_us BIGINT NOT NULL, 
	started_us BIGINT, 
	ended_us BIGINT, 
	attempts BIGINT NOT NULL, 
	interruptions BIGINT NOT NULL, 
	cancel_requested_us BIGINT, 
	cancel_requested_by TEXT, 
	reason TEXT, 
	question_id TEXT, 
	retry_of TEXT, 
	queued_event TEXT NOT NULL, 
	started_event TEXT, 
	PRIMARY KEY (id), 
	CONSTRAINT tasks_session_message UNIQUE (session_id, message_seq)
);

CREATE INDEX tasks_session_status ON tasks (session_id, status, message_seq);

CREATE INDEX tasks_status_created ON tasks (status, created_us);

CREATE INDEX tasks_created ON tasks (created_us);

CREATE TABLE credentials (
	id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	name TEXT NOT NULL, 
	hash BLOB NOT NULL, 
	created_us BIGINT NOT NULL, 
	created_by TEXT NOT NULL, 
	expires_us BIGINT, 
	used_us BIGINT, 
	ended_us BIGINT, 
	ended_by TEXT, 
	PRIMARY KEY (id), 
	CONSTRAINT credentials_hash UNIQUE (hash)
);

CREATE TABLE telegram_bots (
	bot_id BIGINT NOT NULL, 
	next_update BIGINT NOT NULL, 
	updated_us BIGINT NOT NULL, 
	PRIMARY KEY (bot_id)
);

CREATE TABLE telegram_inbox (
	bot_id BIGINT NOT NULL, 
	update_id BIGINT NOT NULL, 
	chat_id BIGINT NOT NULL, 
	document TEXT NOT NULL, 
	received_us BIGINT NOT NULL, 
	task_id TEXT, 
	PRIMARY KEY (bot_id, update_id)
);

CREATE TABLE telegram_chats (
	bot_id BIGINT NOT NULL, 
	chat_id BIGINT NOT NULL, 
	session_id TEXT NOT NULL, 
	PRIMARY KEY (bot_id, chat_id)
);

CREATE TABLE telegram_tasks (
	task_id TEXT NOT NULL, 
	bot_id BIGINT NOT NULL, 
	chat_id BIGINT NOT NULL, 
	session_id TEXT NOT NULL, 
	user_id BIGINT NOT NULL, 
	reply_to BIGINT, 
	shown TEXT NOT NULL, 
	PRIMARY KEY (task_id)
);

CREATE TABLE telegram_questions (
	question_id TEXT NOT NULL, 
	task_id TEXT NOT NULL, 
	session_id TEXT NOT NULL, 
	state TEXT NOT NULL, 
	PRIMARY KEY (question_id)
);

CREATE TABLE mcp_servers (
	id TEXT NOT NULL, 
	definition TEXT NOT NULL, 
	added_by TEXT NOT NULL, 
	added_us BIGINT NOT NULL, 
	PRIMARY KEY (id)
);

CREATE TABLE mcp_tools (
	server TEXT NOT NULL, 
	name TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	definition TEXT, 
	problem TEXT NOT NULL, 
	is_listed INTEGER NOT NULL, 
	class TEXT, 
	PRIMARY KEY (server, name)
);

CREATE TABLE mcp_changes (
	version INTEGER NOT NULL, 
	server TEXT NOT NULL, 
	changed_by TEXT NOT NULL, 
	time_us BIGINT NOT NULL, 
	PRIMARY KEY (version)
);

CREATE TABLE runs (
	session_id TEXT NOT NULL, 
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
	ended_us BIGINT, 
	PRIMARY KEY (session_id)
);

CREATE INDEX runs_created ON runs (created_us);

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

CREATE TABLE telegram_leases (
	bot_id BIGINT NOT NULL, 
	token BIGINT NOT NULL, 
	holder TEXT NOT NULL, 
	expires_ms BIGINT NOT NULL, 
	PRIMARY KEY (bot_id)
);

CREATE INDEX events_stream_task ON events (stream, task, seq);

CREATE INDEX events_stream_kind ON events (stream, kind, seq);

CREATE INDEX stream_heads_time ON stream_heads (time_us, stream);

CREATE TABLE usage (
	session_id TEXT NOT NULL, 
	task TEXT NOT NULL, 
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

CREATE INDEX usage_quarter ON usage (quarter)
