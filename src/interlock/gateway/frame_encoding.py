"""Converts log entries of a session to frames. The last frame of an event carries its number."""

from interlock.feed.entries import LogEntry
from interlock.feed.frames import FeedItemType
from interlock.feed.render import make_stream_chunk, render_entry
from interlock.gateway.protocol import Frame, make_frame


def frames_from_entry(told: LogEntry, shown: str = "") -> list[Frame]:
    """The frames of an entry.

    `shown` is the part of the current answer that was sent before it was stored.
    """
    pieces = list(render_entry(told, shown))
    session_id, task, last = told.header.stream, told.header.task, len(pieces) - 1
    return [
        make_frame(kind, data, session_id=session_id, seq=told.seq if place == last else None, task_id=task)
        for place, (kind, data) in enumerate(pieces)
    ]


def live_text_frame(session_id: str, task_id: str, offset: int, text: str) -> Frame:
    """A frame of text that is not stored yet."""
    data = make_stream_chunk(text, offset, task_id)
    return make_frame(FeedItemType.stream_chunk, data, session_id=session_id, task_id=task_id)
