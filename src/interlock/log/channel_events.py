"""The kinds of events that tell what reached people in other people's services, and who was turned away."""

from dataclasses import dataclass

from interlock.log.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplySent(Event):
    """The whole answer to a task has arrived in a chat, in these messages."""

    kind = "reply.sent"
    outside = ()
    channel: str
    chat: str
    task_id: str
    message_ids: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyFailed(Event):
    """It cannot be brought to its chat; `reason` is a sentence."""

    kind = "reply.failed"
    erasable = ("reason",)
    channel: str
    chat: str
    task_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRefused(Event):
    """Somebody who is not allowed wrote. `unrecorded` is how many before were not written down."""

    kind = "channel.refused"
    outside = ()
    channel: str
    user: str
    chat: str
    reason: str
    unrecorded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPassedOver(Event):
    """Something came that cannot be read; it will not be asked for again."""

    kind = "channel.passed_over"
    outside = ()
    channel: str
    update: str
    reason: str


CHANNEL_EVENTS = (ReplySent, ReplyFailed, ChannelRefused, ChannelPassedOver)
