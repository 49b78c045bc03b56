"""Who may use the bot: people listed by the operator, in private or in a listed group.

Other people reach nothing, and can make neither the log nor the chats grow by more than a little.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from interlock.channels.telegram.updates import MessageSender
from interlock.config.telegram import TelegramSettings

HOUR_SECONDS = 3600.0
MINUTE_SECONDS = 60.0
MAX_NOTICES_PER_MINUTE = 10
MAX_REMEMBERED = 5000


class AccessRefusalReason(StrEnum):
    user = "user"
    chat = "chat"
    not_a_person = "not_a_person"


@dataclass(frozen=True, slots=True)
class AccessRefusal:
    """How a refused message is handled: what is recorded, and whether the sender gets a reply."""

    reason: AccessRefusalReason
    unrecorded: int
    is_told: bool


class AccessControl:
    def __init__(self, given: TelegramSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._given = given
        self._clock = clock
        self._noticed: dict[tuple[int, int], float] = {}
        self._recent: deque[float] = deque()
        self._unrecorded = 0

    def refused(self, sender: MessageSender) -> AccessRefusalReason | None:
        """Why a sender is refused; None if allowed. A private chat is allowed with its person."""
        if not sender.is_person:
            return AccessRefusalReason.not_a_person
        if sender.user_id not in self._given.allowed_users:
            return AccessRefusalReason.user
        if not sender.is_private and sender.chat_id not in self._given.allowed_chats:
            return AccessRefusalReason.chat
        return None

    def is_listed(self, user_id: int) -> bool:
        return user_id in self._given.allowed_users

    def may_decide(self, user_id: int, owner_id: int) -> bool:
        """Whether a person may decide about a task: its owner, or an operator."""
        return user_id == owner_id or self.is_operator(user_id)

    def is_operator(self, user_id: int) -> bool:
        return user_id in self._given.operators

    def notice(self, sender: MessageSender, reason: AccessRefusalReason) -> AccessRefusal | None:
        """A notice, once an hour per person and chat, and a few a minute overall; else None."""
        now, who = self._clock(), (sender.user_id, sender.chat_id)
        while self._recent and now - self._recent[0] >= MINUTE_SECONDS:
            self._recent.popleft()
        known = self._noticed.get(who)
        is_known = known is not None and now - known < HOUR_SECONDS
        if is_known or len(self._recent) >= MAX_NOTICES_PER_MINUTE:
            self._unrecorded += 1
            return None
        if len(self._noticed) >= MAX_REMEMBERED:
            self._noticed.clear()
        self._noticed[who] = now
        self._recent.append(now)
        unrecorded, self._unrecorded = self._unrecorded, 0
        is_told = self._given.refusals and sender.is_private and sender.is_person
        return AccessRefusal(reason, unrecorded, is_told)
