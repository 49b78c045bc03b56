"""All chats of the bot while this process holds its lease: displays tasks and follows their sessions."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import cast

from interlock.channels.telegram.access_control import AccessControl
from interlock.channels.telegram.bot_api import BotApiClient
from interlock.channels.telegram.commands import TelegramCommands
from interlock.channels.telegram.conversation import ChatConversation
from interlock.channels.telegram.outbox import ChatOutbox
from interlock.channels.telegram.polling import UpdatePoller
from interlock.channels.telegram.rate_limit import BotRateLimiter, RateLimit
from interlock.channels.telegram.removed_users import cancel_tasks_of_removed_users, is_from_removed_user
from interlock.channels.telegram.services import TelegramServices
from interlock.channels.telegram.store import (
    AGAIN_SECONDS,
    DisplayedTask,
    TelegramStore,
    retry_until_stored,
)
from interlock.channels.telegram.task_view import TaskView
from interlock.channels.telegram.updates import BotIdentity
from interlock.core.aio import cancel_and_wait
from interlock.core.errors import SessionNotFound, StoreError, TaskNotFound
from interlock.core.logging import StructuredLogger
from interlock.feed.frames import EventData, FeedItem
from interlock.log.channel_events import ReplyFailed, ReplySent
from interlock.log.stream_appender import NO_SCOPE

_log = StructuredLogger(__name__)

MAX_QUEUED_ITEMS = 500
FLUSH_SECONDS = 5.0


class ActiveChats:
    """Runs while this process holds the lease; then `close` it.

    The next holder continues from the store.
    """

    def __init__(
        self,
        bot: BotApiClient,
        records: TelegramStore,
        services: TelegramServices,
        admission: AccessControl,
        traffic: BotRateLimiter,
        paces: tuple[RateLimit, RateLimit],
    ) -> None:
        self._bot = bot
        self._records = records
        self._services = services
        self._admission = admission
        self._private, self._group = paces
        self._commands = TelegramCommands(services, records, admission)
        self._traffic = traffic
        self._outboxes: dict[int, ChatOutbox] = {}
        self._chats: dict[int, ChatConversation] = {}
        self._views: dict[str, TaskView] = {}
        self._subscribers: dict[str, SessionSubscriber] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._arrived = asyncio.Event()

    async def poll(self, name: BotIdentity) -> None:
        polling = UpdatePoller(
            *(self._bot, name, self._records, self._admission, self._services.log, self._traffic),
            ready=self._go_on,
            arrived=self._wake,
        )
        await polling.run()

    async def flush(self) -> None:
        """Send the ends of finished tasks, within a short time limit."""
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                self._arrived.clear()
                while await self._has_untold_ends():
                    await self._arrived.wait()
                    self._arrived.clear()
                for outbox in tuple(self._outboxes.values()):
                    await outbox.settle()
        except Exception as error:  # noqa: BLE001 - whatever it is, the process ends as it should
            _log.warning("telegram_not_all_told", error=str(error) or type(error).__name__)

    async def _has_untold_ends(self) -> bool:
        for task_id in tuple(self._views):
            with suppress(TaskNotFound):
                if (await self._services.tasks.get(task_id)).status.is_end:
                    return True
        return False

    async def close(self) -> None:
        await cancel_and_wait(*self._running)
        for session_id in tuple(self._subscribers):
            await self._leave(session_id)
        for outbox in self._outboxes.values():
            await outbox.close()

    # -- chats --

    async def _go_on(self) -> None:
        """Continue with what the earlier process left unfinished."""
        begins: dict[str, int] = {}
        await self._drop_disallowed()
        for task in await self._records.open_tasks():
            seq = await self._message_of(task)
            if seq is not None:
                self.begin(task)
                begins[task.session_id] = min(seq, begins.get(task.session_id, seq))
        for session_id, seq in begins.items():
            self.follow(session_id, seq - 1)
        self._wake(set(await self._records.chats_with_work()))

    async def _drop_disallowed(self) -> None:
        """Cancel tasks, and drop messages and displays, of people no longer listed."""
        await cancel_tasks_of_removed_users(self._records, self._admission, self._services)
        for chat_id in await self._records.chats_with_work():
            waiting = [each.incoming for each in await self._records.waiting(chat_id)]
            await self._records.done(
                [each for each in waiting if is_from_removed_user(self._admission, each)]
            )
        for task in await self._records.open_tasks():
            if is_from_removed_user(self._admission, task):
                await self._record_failure(task, "the person or the group is no longer allowed")

    async def _message_of(self, task: DisplayedTask) -> int | None:
        """The sequence number of the task's message; None if it is not queued yet, or deleted."""
        try:
            return (await self._services.tasks.get(task.task_id)).message_seq
        except TaskNotFound:
            waiting = await self._records.waiting(task.chat_id)
            if not any(each.task_id == task.task_id for each in waiting):
                # Its session was deleted.
                await self._records.end(task, None, NO_SCOPE)
            return None

    def _wake(self, chat_ids: set[int]) -> None:
        for chat_id in chat_ids:
            self._chat(chat_id).wake()

    def _chat(self, chat_id: int) -> ChatConversation:
        chat = self._chats.get(chat_id)
        if chat is None:
            chat = self._chats[chat_id] = ChatConversation(
                self._outbox(chat_id),
                services=self._services,
                records=self._records,
                commands=self._commands,
                task_display=self,
            )
            self._start(chat.run())
        return chat

    def _outbox(self, chat_id: int) -> ChatOutbox:
        outbox = self._outboxes.get(chat_id)
        if outbox is None:
            pace = self._private if chat_id > 0 else self._group
            outbox = self._outboxes[chat_id] = ChatOutbox(self._bot, chat_id, pace, self._traffic)
        return outbox

    # -- tasks --

    def begin(self, task: DisplayedTask) -> None:
        if task.task_id not in self._views:
            self._views[task.task_id] = TaskView(
                task, self._outbox(task.chat_id), self._records, self._services.redactor, self._ended
            )

    def forget(self, task_id: str) -> None:
        self._views.pop(task_id, None)

    def view(self, task_id: str | None) -> TaskView | None:
        return self._views.get(task_id or "")

    def view_of(self, item: FeedItem) -> TaskView | None:
        """The display of the item's task; if it steered another, and was sent elsewhere, that task's."""
        view = self.view(item.task_id)
        if view is None and item.data.get("kind") == "task.steered":
            return self.view(cast("EventData", item.data)["payload"]["into"])
        return view

    def follow(self, session_id: str, after: int) -> None:
        """Follow a session, unless it is followed already."""
        if session_id not in self._subscribers:
            subscriber = self._subscribers[session_id] = SessionSubscriber(
                session_id, after, self._services, self
            )
            self._start(subscriber.listen())
            self._start(subscriber.follow())

    async def _ended(self, view: TaskView) -> None:
        """The chat shows the end already; record it in the background."""
        self._start(self._put_away(view))

    async def _put_away(self, view: TaskView) -> None:
        task = view.task
        try:
            await retry_until_stored(lambda: self._record_end(view))
        except Exception as error:  # noqa: BLE001 - the others of its session and its chat go on
            _log.error("telegram_end_not_recorded", task_id=task.task_id, exc_info=error)
        self._views.pop(task.task_id, None)
        if not any(other.task.session_id == task.session_id for other in self._views.values()):
            await self._leave(task.session_id)
        self._arrived.set()
        # A message may be waiting for room in the queue.
        self._chat(task.chat_id).wake()

    async def _record_end(self, view: TaskView) -> None:
        task = view.task
        if view.fault:
            await self._record_failure(task, view.fault)
            return
        sent = ReplySent(
            channel="telegram",
            chat=str(task.chat_id),
            task_id=task.task_id,
            message_ids=view.message_ids,
        )
        await self._record(task, sent)

    async def _record_failure(self, task: DisplayedTask, reason: str) -> None:
        failed = ReplyFailed(
            channel="telegram", chat=str(task.chat_id), task_id=task.task_id, reason=reason
        )
        await self._record(task, failed)

    async def _record(self, task: DisplayedTask, event: ReplySent | ReplyFailed) -> None:
        try:
            scope = (await self._services.tasks.get(task.task_id)).scope
        except TaskNotFound:
            await self._records.end(task, None, NO_SCOPE)
        else:
            await self._records.end(task, event, scope)

    async def _leave(self, session_id: str) -> None:
        subscriber = self._subscribers.pop(session_id, None)
        if subscriber is not None:
            await self._services.hub.leave(session_id, subscriber)
            subscriber.end()

    async def drop_session(self, session_id: str) -> None:
        """The session was deleted: stop displaying its tasks."""
        for view in [view for view in self._views.values() if view.task.session_id == session_id]:
            self._views.pop(view.task.task_id, None)
            await self._records.end(view.task, None, NO_SCOPE)
        await self._leave(session_id)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._stopped)

    def _stopped(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("telegram_part_ended", exc_info=error)


class SessionSubscriber:
    """Follows one session for the chats with tasks in it."""

    def __init__(self, session_id: str, after: int, services: TelegramServices, shift: ActiveChats) -> None:
        self._session_id = session_id
        self._after = after
        self._services = services
        self._shift = shift
        self._heard: asyncio.Queue[FeedItem | None] = asyncio.Queue()
        self._room = asyncio.Event()
        self._has_ended = False

    def deliver(self, item: FeedItem, /) -> None:
        if item.seq is not None:
            self._after = max(self._after, item.seq)
        self._heard.put_nowait(item)

    async def ready(self) -> None:
        while self._heard.qsize() >= MAX_QUEUED_ITEMS:
            self._room.clear()
            await self._room.wait()

    def end(self) -> None:
        self._has_ended = True
        self._heard.put_nowait(None)

    async def follow(self) -> None:
        while True:
            try:
                await self._services.hub.follow(self._session_id, self, after=self._after)
            except SessionNotFound:
                await self._shift.drop_session(self._session_id)
            except StoreError as error:
                _log.warning("telegram_not_followed", session_id=self._session_id, error=str(error))
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if self._has_ended:
                # The session was dropped while its earlier events were still being read.
                await self._services.hub.leave(self._session_id, self)
            return

    async def listen(self) -> None:
        while (item := await self._heard.get()) is not None:
            self._room.set()
            if item.data.get("kind") == "session.deleted":
                await self._shift.drop_session(self._session_id)
            elif (view := self._shift.view_of(item)) is not None:
                try:
                    await retry_until_stored(partial(view.show, item))
                except Exception as error:  # noqa: BLE001 - one odd event must not silence the session
                    _log.error("telegram_not_shown", task_id=item.task_id, exc_info=error)
