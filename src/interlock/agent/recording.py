"""Writes down what the loop does, in the order it happens and in as few commits as that allows.

Facts are queued when they happen and waited for once in a turn: all that was queued before something is
on disk with it, since one writer takes everything in order.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import structlog

from interlock.agent.asking import Question
from interlock.agent.calling import CallsEnd, TurnScope
from interlock.agent.control import TaskControl
from interlock.agent.conversation import Conversation
from interlock.agent.events import TaskEnded, TurnCompleted
from interlock.agent.limits import Stop
from interlock.agent.personas import Agent
from interlock.config.modes import ToolMode
from interlock.events import work
from interlock.events.base import Event
from interlock.events.ledger import NO_SCOPE, Scope
from interlock.events.log import EventLog
from interlock.gates.authority import Authority
from interlock.models.provider import FinishReason, ModelError, Reply, ToolChoice, Usage
from interlock.session.manager import SessionManager
from interlock.session.models import Message, Role

if TYPE_CHECKING:
    from interlock.session.messages import MessageDraft

_log = structlog.get_logger(__name__)

_CUT_OFF = "The model's answer ends here because it reached the longest answer it may give."
_WITHHELD = "The model's server withheld the answer."


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the loop works on: a session whose last message waits for an answer."""

    session_id: str
    mode: ToolMode
    scope: Scope = NO_SCOPE
    lease_token: int | None = None
    # More than one means that somebody has worked on it before.
    attempt: int = 1


class Recording:
    """One assignment's, from its beginning to its end."""

    def __init__(
        self,
        sessions: SessionManager,
        log: EventLog,
        assignment: Assignment,
        conversation: Conversation,
        model: str,
    ) -> None:
        self._sessions = sessions
        self._log = log
        self._assignment = assignment
        self._conversation = conversation
        self._model = model
        self._scope = assignment.scope
        self._queued: list[asyncio.Future[Any]] = []
        self._reply: asyncio.Future[Message] | None = None
        self._used = Usage(0, 0)

    def note(self, events: Sequence[Event]) -> None:
        if events:
            self._queued.append(self._begin(events, self._scope))

    async def begin(self, agent: Agent | None) -> None:
        started = work.AgentStarted(
            task_id=self._assignment.scope.task or "",
            agent=agent.name if agent else "",
            agent_hash=agent.sha256 if agent else "",
            model=self._model,
        )
        recorded = await self._begin([started], self._assignment.scope)
        self._scope = Scope(self._assignment.scope.task, recorded[0].id)

    def earlier_turn(self, turn_id: str | None, authority: Authority) -> TurnScope:
        """Where calls belong that an earlier attempt left behind."""
        scope = Scope(self._scope.task, turn_id or self._scope.parent)
        return TurnScope(self._assignment.session_id, scope, authority, self._assignment.lease_token)

    async def take(self, end: CallsEnd) -> None:
        """Give the model the answers to what an earlier attempt left behind."""
        for answer in end.answers.values():
            self._conversation.add(await answer)
        await self._settled()

    async def begin_turn(self, turn: int, authority: Authority) -> TurnScope:
        started = work.TurnStarted(
            turn=turn,
            authority_digest=authority.digest,
            model=self._model,
            tool_choice=self.tool_choice(turn, authority).value,
            messages=len(self._conversation.encoded()),
        )
        recorded = await self._begin([started], self._scope)
        inside = Scope(self._scope.task, recorded[0].id)
        return TurnScope(self._assignment.session_id, inside, authority, self._assignment.lease_token)

    def tool_choice(self, turn: int, authority: Authority) -> ToolChoice:
        """A coding task begins with a call; later it must be able to end."""
        begins = turn == 1 and self._assignment.attempt == 1
        must_act = begins and authority.mode is ToolMode.coding and bool(authority.exposed)
        return ToolChoice.required if must_act else ToolChoice.auto

    def compact(self, *, reserved: int) -> None:
        if done := self._conversation.compact(reserved):
            self.note(
                [
                    work.ContextCompacted(
                        through_seq=done.through_seq,
                        tokens_before=done.tokens_before,
                        tokens_after=done.tokens_after,
                    )
                ]
            )

    def keep(self, question: Question, turn: TurnScope) -> tuple[Reply, Usage]:
        """Queue the answer for the transcript. The calls in it are given ids of their own."""
        given = question.reply
        if given is None:
            raise AssertionError("asking ends with a reply or raises")
        reply = replace(given, tool_calls=self._conversation.with_own_ids(given.tool_calls))
        usage = reply.usage or _estimated(self._conversation, reply)
        self._used = Usage(
            self._used.input_tokens + usage.input_tokens, self._used.output_tokens + usage.output_tokens
        )
        now = asyncio.get_running_loop().time()
        began, first = question.began, question.first_piece
        completed = work.TurnCompleted(
            turn=question.turn,
            finish_reason=reply.finish_reason.value,
            tool_calls=len(reply.tool_calls),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            latency_ms=round((now - began) * 1000, 3),
            first_piece_ms=None if first is None else round((first - began) * 1000, 3),
            model=self._model,
        )
        self._reply = self._sessions.begin_message(
            self._assignment.session_id,
            self._draft_of(reply),
            scope=turn.scope,
            token=self._assignment.lease_token,
            facts=[completed],
        )
        return reply, usage

    async def end_turn(self, turn: int, reply: Reply, usage: Usage, end: CallsEnd) -> TurnCompleted:
        """Nothing of the turn is told as over before all of it is on disk."""
        if self._reply is None:
            raise AssertionError("a turn that ends has had a reply")
        said, self._reply = await self._reply, None
        self._conversation.add(said)
        for answer in end.answers.values():
            self._conversation.add(await answer)
        await self._settled()
        return TurnCompleted(
            *(turn, said.content, len(reply.tool_calls)), usage.input_tokens, usage.output_tokens
        )

    async def end(self, control: TaskControl, stop: Stop | None, last: Reply | None) -> TaskEnded:
        if stop is not None:
            self.note([stop.event])
            await self._fail(control, stop.sentence, stop.limit)
            return TaskEnded("failed", stop.sentence, stop.limit)
        if last is not None and last.finish_reason is FinishReason.content_filter:
            await self._fail(control, _WITHHELD, "content_filter")
            return TaskEnded("failed", _WITHHELD)
        self.note(
            [
                work.AgentCompleted(
                    turns=control.turns,
                    input_tokens=self._used.input_tokens,
                    output_tokens=self._used.output_tokens,
                )
            ]
        )
        await self._settled()
        is_cut = last is not None and last.finish_reason is FinishReason.length
        return TaskEnded("done", _CUT_OFF if is_cut else "")

    async def fail(self, control: TaskControl, error: ModelError) -> TaskEnded:
        await self._fail(control, str(error), error.fault.value)
        return TaskEnded("failed", str(error))

    async def _fail(self, control: TaskControl, error: str, error_class: str) -> None:
        self.note([work.AgentFailed(turns=control.turns, error=error, error_class=error_class)])
        await self._settled()

    async def close(self, end: CallsEnd | None) -> None:
        """Wait until all that was queued is on disk, however the work ended. Faults are told elsewhere."""
        writing = {*self._queued, *(end.answers.values() if end else ())}
        if self._reply is not None:
            writing.add(self._reply)
        cancelled: asyncio.CancelledError | None = None
        while unfinished := {each for each in writing if not each.done()}:
            try:
                await asyncio.wait(unfinished)
            except asyncio.CancelledError as error:
                cancelled = error
        for each in writing:
            if not each.cancelled() and (fault := each.exception()) is not None:
                _log.warning("not_recorded", session_id=self._assignment.session_id, error=str(fault))
        if cancelled is not None:
            raise cancelled

    async def _settled(self) -> None:
        queued, self._queued = self._queued, []
        for writing in queued:
            await writing

    def _begin(self, events: Sequence[Event], scope: Scope) -> "asyncio.Future[Any]":
        return self._log.begin_append(
            self._assignment.session_id, *events, scope=scope, token=self._assignment.lease_token
        )

    def _draft_of(self, reply: Reply) -> "MessageDraft":
        calls = [
            {"id": call.call_id, "name": call.name, "arguments": call.arguments}
            for call in reply.tool_calls
        ]
        return self._sessions.draft(Role.assistant, reply.text, tool_calls=calls)


def _estimated(conversation: Conversation, reply: Reply) -> Usage:
    """For servers that do not say what was used: limits must count something."""
    said = len(reply.text) + sum(len(call.arguments) + len(call.name) for call in reply.tool_calls)
    return Usage(conversation.tokens, said // 3 + 1)
