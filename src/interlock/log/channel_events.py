"""The kinds of events about chat channels: delivered replies, and refused senders."""

from dataclasses import dataclass

from interlock.log.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplySent(Event):
    """The whole answer to a task was delivered to a chat, in these messages."""

    kind = "reply.sent"
    outside = ()
    channel: str
    chat: str
    task_id: str
    message_ids: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyFailed(Event):
    """The answer cannot be delivered to its chat; `reason` is a sentence."""

    kind = "reply.failed"
    erasable = ("reason",)
    channel: str
    chat: str
    task_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRefused(Event):
    """A message from a sender who is not allowed. `unrecorded` counts those before it without an event."""

    kind = "channel.refused"
    outside = ()
    channel: str
    user: str
    chat: str
    reason: str
    unrecorded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPassedOver(Event):
    """An update that cannot be read; it will not be requested again."""

    kind = "channel.passed_over"
    outside = ()
    channel: str
    update: str
    reason: str


CHANNEL_EVENTS = (ReplySent, ReplyFailed, ChannelRefused, ChannelPassedOver)
