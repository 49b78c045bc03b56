"""The transcript rows that `message.appended` authenticates: one row, one number, one hash."""

from hashlib import sha256

import orjson

INSERT_MESSAGE = """
INSERT INTO messages (session_id, seq, role, content, tool_calls, tool_call_id, time_us)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""

READ_MESSAGE = """
SELECT role, content, tool_calls, tool_call_id FROM messages WHERE session_id = ? AND seq = ?
"""


def content_hash(role: str, content: str | None, tool_calls: str | None, tool_call_id: str | None) -> bytes:
    """sha256 of the four fields as a JSON array without spaces."""
    return sha256(orjson.dumps([role, content, tool_calls, tool_call_id])).digest()
