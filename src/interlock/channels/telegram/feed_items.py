"""Feed items of a session, as Telegram chats need them."""

from dataclasses import dataclass

from interlock.feed.entries import LogEntry
from interlock.feed.follow import FeedRenderer
from interlock.feed.frames import FeedItem, FeedItemType
from interlock.feed.render import make_stream_chunk, render_entry


@dataclass(frozen=True, slots=True)
class TelegramFeedItem:
    """An item and its task. Text that is not stored yet has no number."""

    task_id: str | None
    piece: FeedItem
    seq: int | None = None


def render_event(entry: LogEntry, shown: str) -> list[TelegramFeedItem]:
    return [TelegramFeedItem(entry.header.task, piece, entry.seq) for piece in render_entry(entry, shown)]


def render_text(_session_id: str, task_id: str, offset: int, text: str) -> TelegramFeedItem:
    return TelegramFeedItem(task_id, (FeedItemType.stream_chunk, make_stream_chunk(text, offset, task_id)))


FEED_RENDERER: FeedRenderer[TelegramFeedItem] = FeedRenderer(render_event, render_text)
