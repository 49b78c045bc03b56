"""Encodes what sessions publish as frames. The last frame of an event carries its number."""

from interlock.feed.entries import LogEntry
from interlock.feed.frames import FeedItem
from interlock.feed.render import render_entry
from interlock.gateway.protocol import Frame, make_frame


def frame_of_item(session_id: str, item: FeedItem) -> Frame:
    seq = item.seq if item.is_last else None
    return make_frame(item.type, item.data, session_id=session_id, seq=seq, task_id=item.task_id)


def frames_of_entry(entry: LogEntry) -> list[Frame]:
    return [frame_of_item(entry.header.stream, item) for item in render_entry(entry)]
