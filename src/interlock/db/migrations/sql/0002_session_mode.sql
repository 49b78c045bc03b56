-- A session has a mode. Every session that existed before gets `chat_safe` (ADR 0025, 0026).

ALTER TABLE sessions ADD COLUMN mode TEXT NOT NULL DEFAULT 'chat_safe';
