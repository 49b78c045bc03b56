"""Records what the loop does, in order and in as few commits as possible.

Events are held back until the next append of the task, which records them first: what was held before a
call is on disk with that call's intent. What people must see while the model or a retry is waited for is
appended without waiting. A task's end is emitted when all of it is on disk.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from interlock.agent.context import ContextMessage, ModelContext, estimate_tokens
from interlock.agent.definitions import AgentDefinition
from interlock.agent.events import CUT_OFF, TaskEnded, TurnCompleted
from interlock.agent.limit_stops import LimitStop
from interlock.agent.limit_tracker import LimitTracker
from interlock.agent.model_turn import TurnRequest
from interlock.agent.tool_calls import DraftedMessage, ToolCallBatchResult, TurnScope
from interlock.config.modes import ToolMode
from interlock.core.errors import StoreError
from interlock.core.logging import StructuredLogger
from interlock.core.token_usage import NO_USAGE, TokenUsage
from interlock.log import task_events
from interlock.log.event import Event
from interlock.log.hash_chain import new_event_id
from interlock.log.stream_appender import NO_SCOPE, EventDraft, EventScope
from interlock.log.writer import EventLog
from interlock.models.provider import FinishReason, ModelError, ModelReply
from interlock.policy.authority import Authority
from interlock.sessions.manager import SessionManager
from interlock.sessions.models import Role

if TYPE_CHECKING:
    from interlock.sessions.storable_message import StorableMessage

_log = StructuredLogger(__name__)

_WITHHELD = "The model's server withheld the answer (content filter)."


@dataclass(frozen=True, slots=True)
class TaskAssignment:
    """The mode, task and lease under which the loop works on a session's last message."""

    mode: ToolMode
    scope: EventScope = NO_SCOPE
    lease_token: int | None = None
    is_held: Callable[[], bool] = lambda: True
    # More than one: the task was worked on before.
    attempt: int = 1
    # The person who owns the task; empty if unknown.
    who: str = ""


class TaskRecorder:
    """Records one assignment, from start to end."""

    def __init__(
        self,
        sessions: SessionManager,
        log: EventLog,
        session_id: str,
        assignment: TaskAssignment,
        conversation: ModelContext,
        model: str,
        *,
        used: TokenUsage,
    ) -> None:
        """`used`: the tokens of the task's turns in earlier attempts."""
        self._sessions = sessions
        self._log = log
        self._session_id = session_id
        self._assignment = assignment
        self._conversation = conversation
        self._model = model
        self._agent = ""
        self._scope = assignment.scope
        self._appender = log.appender(session_id, assignment.lease_token)
        self._unnumbered: list[tuple[EventDraft, ContextMessage]] = []
        self._used = used
        self._said = ""

    def hold(self, events: Sequence[Event]) -> None:
        self._appender.hold(*(self._log.draft(event, self._scope) for event in events))

    def append(self, event: Event) -> None:
        """Record an event without waiting for it."""
        self._appender.append(self._log.draft(event, self._scope))

    def begin(self, agent: AgentDefinition | None) -> None:
        self._agent = agent.name if agent else ""
        started = task_events.AgentStarted(
            task_id=self._assignment.scope.task or "",
            agent=self._agent,
            agent_hash=agent.sha256 if agent else "",
            model=self._model,
        )
        draft = self._log.draft(started, self._scope)
        self._appender.append(draft)
        self._scope = EventScope(self._scope.task, draft.id)

    def earlier_turn(self, turn_id: str | None, authority: Authority) -> TurnScope:
        """The scope of calls that an earlier attempt left open."""
        scope = EventScope(self._scope.task, turn_id or self._scope.parent)
        return self._turn_scope(scope, authority)

    def _turn_scope(self, scope: EventScope, authority: Authority) -> TurnScope:
        given = self._assignment
        return TurnScope(
            session_id=self._session_id,
            scope=scope,
            authority=authority,
            lease_token=given.lease_token,
            appender=self._appender,
            is_held=given.is_held,
        )

    def take(self, end: ToolCallBatchResult) -> None:
        """Give the model the results of calls that an earlier attempt left open."""
        self._add_answers(end)

    def begin_turn(self, authority: Authority) -> TurnScope:
        """The scope of a turn's calls. Its event is recorded when the model has answered."""
        return self._turn_scope(EventScope(self._scope.task, new_event_id()), authority)

    async def compact(self, *, reserved: int) -> None:
        """Compact the context. The cut is a message number, so all messages must have theirs first."""
        if not self._conversation.is_too_long(reserved):
            return
        await self._settled()
        if done := self._conversation.compact(reserved):
            self.hold(
                [
                    task_events.ContextCompacted(
                        through_seq=done.through_seq,
                        tokens_before=done.tokens_before,
                        tokens_after=done.tokens_after,
                    )
                ]
            )

    def keep(self, question: TurnRequest, turn: TurnScope) -> tuple[ModelReply, TokenUsage]:
        """Queue the reply for the transcript. Its calls get unique ids."""
        given = question.reply
        if given is None:
            raise AssertionError("the model call must end with a reply or raise")
        reply = replace(given, tool_calls=self._conversation.with_unique_ids(given.tool_calls))
        usage = _used(question, reply)
        self._used += usage
        now = asyncio.get_running_loop().time()
        began, first = question.began, question.first_piece
        message = self._draft_of(reply, turn.authority)
        completed = task_events.TurnCompletedEvent(
            turn=question.turn,
            authority_digest=turn.authority.digest,
            tool_choice=question.request.tool_choice.value,
            messages=len(self._conversation),
            finish_reason=reply.finish_reason.value,
            tool_calls=len(reply.tool_calls),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            latency_ms=round((now - began) * 1000, 3),
            first_piece_ms=None if first is None else round((first - began) * 1000, 3),
            model=self._model,
            agent=self._agent,
            actor=self._assignment.who,
            redacted=message.redacted,
            content=message.content,
            calls=message.tool_calls,
        )
        self._say(message, self._log.draft(completed, self._scope, event_id=turn.scope.parent))
        return reply, usage

    def end_turn(
        self,
        number: int,
        turn: TurnScope,
        reply: ModelReply,
        usage: TokenUsage,
        end: ToolCallBatchResult,
        *,
        closing: str = "",
    ) -> TurnCompleted:
        """Record the end of a turn. `closing` is the answer, if it follows calls that were not run."""
        self._add_answers(end)
        if closing:
            message = self._sessions.draft(Role.assistant, closing)
            self._say(message, self._log.draft(message.event(), turn.scope))
        return TurnCompleted(
            *(number, self._said, len(reply.tool_calls)), usage.input_tokens, usage.output_tokens
        )

    async def end(
        self,
        control: LimitTracker,
        stop: LimitStop | None,
        last: ModelReply | None,
        end: ToolCallBatchResult,
    ) -> TaskEnded | None:
        """Record the end of the task; None if it waits for a person. Everything is on disk afterwards."""
        if end.waiting:
            await self._settled()
            return None
        if stop is not None:
            self.hold([stop.event])
            await self._fail(control, stop.sentence, stop.limit)
            return TaskEnded("failed", stop.sentence, stop.limit)
        if last is not None and last.finish_reason is FinishReason.content_filter:
            await self._fail(control, _WITHHELD, "content_filter")
            return TaskEnded("failed", _WITHHELD)
        self.hold(
            [
                task_events.AgentCompleted(
                    turns=control.turns,
                    input_tokens=self._used.input_tokens,
                    output_tokens=self._used.output_tokens,
                )
            ]
        )
        await self._settled()
        is_cut = last is not None and last.finish_reason is FinishReason.length
        return TaskEnded("done", CUT_OFF if is_cut else "")

    async def fail(self, control: LimitTracker, error: ModelError) -> TaskEnded:
        await self._fail(control, str(error), error.fault.value)
        return TaskEnded("failed", str(error))

    async def _fail(self, control: LimitTracker, error: str, error_class: str) -> None:
        failed = task_events.AgentFailed(
            turns=control.turns,
            error=error,
            error_class=error_class,
            agent=self._agent,
            actor=self._assignment.who,
        )
        self.hold([failed])
        await self._settled()

    async def close(self) -> None:
        """Write what is still held back, however the work ended. Errors are reported elsewhere."""
        try:
            await self._appender.flush()
        except StoreError as error:
            _log.warning("not_recorded", session_id=self._session_id, error=str(error))

    async def _settled(self) -> None:
        """Wait until everything is on disk and every message has its number."""
        await self._appender.flush()
        for draft, entry in self._unnumbered:
            entry.seq = draft.seq
        self._unnumbered.clear()

    def _add_answers(self, end: ToolCallBatchResult) -> None:
        for answer in end.answers.values():
            self._add(answer)

    def _add(self, held: DraftedMessage) -> None:
        if (entry := self._conversation.add(held.message)) is not None:
            self._unnumbered.append((held.draft, entry))

    def _say(self, message: "StorableMessage", draft: EventDraft) -> None:
        self._appender.hold(draft)
        self._add(DraftedMessage(message.message(), draft))
        self._said = message.content

    def _draft_of(self, reply: ModelReply, authority: Authority) -> "StorableMessage":
        """The message to store.

        Calls have the tool's name, and the name that the model used if it differs.
        """
        calls = [
            {"id": call.call_id, "name": name, "arguments": call.arguments}
            | ({} if name == call.name else {"called_as": call.name})
            for call in reply.tool_calls
            for name in [authority.names.get(call.name, call.name)]
        ]
        return self._sessions.draft(Role.assistant, reply.text, tool_calls=calls)


def _used(question: TurnRequest, reply: ModelReply) -> TokenUsage:
    """The usage that the server reports. Missing or zero figures are estimated, so that limits count."""
    told, request = reply.usage or NO_USAGE, question.request
    if told.input_tokens and told.output_tokens:
        return told
    asked = sum(map(estimate_tokens, request.messages)) + estimate_tokens(request.tools)
    said = len(reply.text) + sum(len(call.arguments) + len(call.name) for call in reply.tool_calls)
    return TokenUsage(told.input_tokens or asked, told.output_tokens or said // 3 + 1)
