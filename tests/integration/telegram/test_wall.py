"""A chat that is closed in the middle: every task in it ends, and so does the process."""

import asyncio

import pytest

from interlock.channels.telegram.conversation import ChatConversation
from interlock.channels.telegram.errors import ChatUnavailable
from interlock.channels.telegram.outbox import ChatOutbox, OutgoingMessage
from interlock.channels.telegram.outgoing_content import MessageContent
from interlock.channels.telegram.rate_limit import BotRateLimiter, RateLimit
from interlock.core.errors import StoreUnavailable
from tests.harness.telegram import ADA, BOB, open_telegram_harness, script
from tests.harness.telegram_faults import BLOCKED

PACE = RateLimit(requests=1000, seconds=1.0, soft_seconds=0.0)


class Bot:
    is_blocked = False
    sent = 0

    async def send(self, _chat, _content, *, reply_to=None):
        self._judge()
        self.sent += 1
        return self.sent

    async def edit(self, *_):
        self._judge()

    def _judge(self):
        if self.is_blocked:
            raise ChatUnavailable("Forbidden: bot was blocked by the user")


class Task:
    """Two cards, which it lets go of as soon as none of them is due any more."""

    def __init__(self, wall):
        self.wall = wall
        self.is_over = self.has_ended = False
        self.cards = [
            OutgoingMessage(name, wanted=MessageContent(name), noted=self.note, settled=self.settled)
            for name in ("status", "text")
        ]
        for card in self.cards:
            wall.put(card)

    async def note(self, _card):
        pass

    async def settled(self, _card):
        if self.is_over and not self.has_ended and not any(card.is_due for card in self.cards):
            self.has_ended = True
            self.wall.release(self.cards)


async def test_a_closed_chat_ends_all_of_its_tasks():
    bot = Bot()
    wall = ChatOutbox(bot, 42, PACE, BotRateLimiter(PACE))
    tasks = [Task(wall), Task(wall)]
    await wall.settle()
    bot.is_blocked = True
    for task in tasks:
        task.is_over = True
    wall.change(tasks[0].cards[0], MessageContent("done"))
    wall.change(tasks[1].cards[1], MessageContent("the end of the second"))
    await wall.settle()
    assert [task.has_ended for task in tasks] == [True, True]
    bot.is_blocked = False
    wall.say(MessageContent("open again"))
    await wall.settle()
    assert bot.sent == 5


async def test_a_message_that_is_not_noted_yet_does_not_count_as_shown():
    """An end that is recorded before it would, after a kill, send the message again."""
    noting, may_note = asyncio.Event(), asyncio.Event()

    async def note(_card):
        noting.set()
        await may_note.wait()

    wall = ChatOutbox(Bot(), 42, PACE, BotRateLimiter(PACE))
    card = wall.put(OutgoingMessage("text:0:0", wanted=MessageContent("the answer"), noted=note))
    await asyncio.wait_for(noting.wait(), 10)
    assert card.message_id == 1
    assert card.is_due
    may_note.set()
    await wall.settle()
    assert not card.is_due


async def test_a_fault_nobody_thought_of_is_logged_and_the_chat_goes_on():
    class Odd(Bot):
        async def send(self, chat, content, *, reply_to=None):
            if not self.is_blocked:
                self.is_blocked = True
                raise RuntimeError("odd")
            self.is_blocked = False
            return await super().send(chat, content)

    bot = Odd()
    wall = ChatOutbox(bot, 42, PACE, BotRateLimiter(PACE))
    wall.say(MessageContent("one"))
    await wall.settle()
    assert bot.sent == 1


async def test_two_tasks_of_a_chat_that_is_closed_are_both_recorded(open_harness, telegram):
    call = {"tool_calls": [{"name": "current_time"}]}
    harness = await open_harness(MODEL=script(call, "msg:one", call, "msg:two"))
    await telegram.say(ADA, "a")
    await telegram.until_shown(ADA, "⚙")
    for method in ("sendMessage", "editMessageText"):
        telegram.trouble(method, *[BLOCKED] * 20)
    await telegram.say(ADA, "b")
    async with asyncio.timeout(10):
        while await harness.query("SELECT 1 FROM telegram_tasks UNION SELECT 1 FROM telegram_inbox"):
            await asyncio.sleep(0.02)
    told = await harness.query("SELECT 1 FROM events WHERE kind = 'reply.failed'")
    assert len(told) == 2
    telegram._troubles.clear()
    await harness.chat("c", "one", user=BOB)


@pytest.mark.parametrize("error", [ValueError("odd"), RuntimeError("odd")])
async def test_a_fault_while_the_last_things_are_told_does_not_break_the_end(
    tmp_path, monkeypatch, telegram, error, caplog
):
    async def odd(_wall):
        raise error

    monkeypatch.setattr(ChatOutbox, "settle", odd)
    given = {"MODEL": script("msg:one")}
    async with open_telegram_harness(tmp_path, monkeypatch, telegram, given) as harness:
        await harness.chat("a", "one")
    assert "telegram_not_all_told" in caplog.text


async def test_a_wall_is_closed_though_something_is_put_up_just_then():
    pace = RateLimit(requests=1, seconds=60.0, soft_seconds=0.0)
    for turns_of_the_loop in range(6):
        wall = ChatOutbox(Bot(), 42, pace, BotRateLimiter(pace))
        wall.say(MessageContent("first"))
        wall.say(MessageContent("has to wait"))
        await asyncio.sleep(0.02)
        wall.say(MessageContent("last"))
        await _turned(turns_of_the_loop)
        closing = asyncio.create_task(wall.close())
        await asyncio.wait({closing}, timeout=5)
        assert closing.done(), f"{turns_of_the_loop} turns of the loop later"
        assert closing.exception() is None


async def test_a_chat_is_left_though_somebody_writes_just_then():
    class Away:
        async def waiting(self, _chat):
            raise StoreUnavailable("the store is away")

    for turns_of_the_loop in range(6):
        wall = ChatOutbox(Bot(), 42, PACE, BotRateLimiter(PACE))
        chat = ChatConversation(wall, services=None, records=Away(), commands=None, task_display=None)
        running = asyncio.create_task(chat.run())
        await asyncio.sleep(0.02)
        chat.wake()
        await _turned(turns_of_the_loop)
        running.cancel()
        await asyncio.wait({running}, timeout=5)
        assert running.cancelled(), f"{turns_of_the_loop} turns of the loop later"


async def _turned(times):
    for _ in range(times):
        await asyncio.sleep(0)
