"""Records what the loop does, in order and in as few commits as possible.

Events are held back until the next append of the task, which records them first: what was held before a
call is on disk with that call's intent. What people must see while the model or a retry is waited for is
appended without waiting. A task's end is emitted when all of it is on disk.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from interlock.agent.context import ContextMessage, ModelContext, reply_usage
from interlock.agent.definitions import AgentDefinition
from interlock.agent.events import CUT_OFF, TaskEnded, TurnCompleted
from interlock.agent.limit_tracker import LimitTracker
from interlock.agent.limits import LimitStop
from interlock.agent.model_turn import TurnReply
from interlock.agent.summary import Summary
from interlock.agent.tool_calls import CallResults, DraftedMessage, TurnScope
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
from interlock.sessions.models import Message, Role
from interlock.tools.tool import ToolContext

if TYPE_CHECKING:
    from interlock.sessions.storable_message import StorableMessage

_log = StructuredLogger(__name__)

_WITHHELD = "The model's server withheld the answer (content filter)."


# Takes what people sent to steer the task; what it gets is awaited before, if there is anything.
TakeSteering = Callable[[Callable[[], Awaitable[None]]], Awaitable[Sequence[Message]]]


async def _no_steering(_before: Callable[[], Awaitable[None]]) -> Sequence[Message]:
    return ()


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
    take_steering: TakeSteering = _no_steering


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
        self._last_text = ""

    def hold(self, events: Sequence[Event]) -> None:
        self._appender.hold(*(self._log.draft(event, self._scope) for event in events))

    def append(self, event: Event) -> None:
        """Record an event without waiting for it."""
        self._appender.append(self._log.draft(event, self._scope))

    def discard(self, event: task_events.TurnDiscarded) -> None:
        """Record, without waiting, an answer that broke off. Its tokens count like those of any turn."""
        self._used += TokenUsage(event.input_tokens, event.output_tokens)
        self.append(replace(event, agent=self._agent, actor=self._assignment.who))

    def hold_result(
        self, call_id: str, content: str, scope: EventScope, *, replaces_outcome: bool = False
    ) -> DraftedMessage:
        """Leave the tool message of a call, which its outcome does not have, for the next append."""
        message = self._sessions.draft(Role.tool, content, tool_call_id=call_id)
        draft = self._log.draft(replace(message.event(), replaces_outcome=replaces_outcome), scope)
        self._appender.hold(draft)
        return DraftedMessage(message.message(), draft)

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
        context = ToolContext(
            self._session_id,
            scope,
            given.lease_token,
            agent=self._agent,
            is_held=given.is_held,
            appender=self._appender,
        )
        return TurnScope(authority, context)

    def begin_turn(self, authority: Authority) -> TurnScope:
        """The scope of a turn's calls. Its event is recorded when the model has answered."""
        return self._turn_scope(EventScope(self._scope.task, new_event_id()), authority)

    async def take_steering(self) -> None:
        """Give the model what people sent meanwhile to steer the task: after all that is stored."""
        for message in await self._assignment.take_steering(self.flush):
            self._conversation.add(message)

    async def compact(
        self, *, reserved: int, summary: Summary | None = None, model: str = "", all_older: bool = False
    ) -> None:
        """Compact the context, with a summary that `model` wrote, if any.

        The cut is a message number, so all messages must have theirs first.
        """
        await self.flush()
        usage = summary.usage if summary else NO_USAGE
        self._used += usage
        text = summary.text if summary else ""
        if done := self._conversation.compact(reserved, summary=text, all_older=all_older):
            self.hold(
                [
                    task_events.ContextCompacted(
                        through_seq=done.through_seq,
                        tokens_before=done.tokens_before,
                        tokens_after=done.tokens_after,
                        model=model if summary else "",
                        input_tokens=usage.input_tokens,
                        output_tokens=usage.output_tokens,
                        agent=self._agent,
                        actor=self._assignment.who,
                        summary=text,
                    )
                ]
            )

    def record_reply(self, answer: TurnReply, turn: TurnScope) -> tuple[ModelReply, TokenUsage]:
        """Queue the reply for the transcript. Its calls get unique ids."""
        asked, given = answer.asked, answer.reply
        reply = replace(given, tool_calls=self._conversation.with_unique_ids(given.tool_calls))
        usage = reply_usage(asked.request, reply)
        self._used += usage
        now = asyncio.get_running_loop().time()
        began, first = asked.began, answer.first_delta_at
        message = self._draft_reply(reply, turn.authority)
        completed = task_events.TurnCompletedEvent(
            turn=asked.turn,
            authority_digest=turn.authority.digest,
            tool_choice=asked.request.tool_choice.value,
            messages=len(self._conversation),
            finish_reason=reply.finish_reason.value,
            tool_calls=len(reply.tool_calls),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            latency_ms=round((now - began) * 1000, 3),
            first_piece_ms=None if first is None else round((first - began) * 1000, 3),
            reasoning_ms=answer.reasoning_ms,
            model=answer.model,
            agent=self._agent,
            actor=self._assignment.who,
            redacted=message.redacted,
            content=message.content,
            calls=message.tool_calls,
            reasoning=message.reasoning_fields(),
        )
        self._record_message(
            message, self._log.draft(completed, self._scope, event_id=turn.context.scope.parent)
        )
        return reply, usage

    def record_results(self, results: CallResults) -> None:
        """Give the model the results of its calls."""
        for answer in results.answers.values():
            self._add(answer)

    def end_turn(
        self, number: int, turn: TurnScope, reply: ModelReply, usage: TokenUsage, *, closing: str = ""
    ) -> TurnCompleted:
        """The end of a turn. `closing` is the answer, if it follows calls that were not run."""
        if closing:
            message = self._sessions.draft(Role.assistant, closing)
            self._record_message(message, self._log.draft(message.event(), turn.context.scope))
        return TurnCompleted(
            *(number, self._last_text, len(reply.tool_calls)), usage.input_tokens, usage.output_tokens
        )

    async def end(
        self, limits: LimitTracker, stop: LimitStop | None, last: ModelReply | None, results: CallResults
    ) -> tuple[TaskEnded, ...]:
        """Record the end of the task, unless it waits for a person. Everything is on disk afterwards."""
        if results.waiting:
            await self.flush()
            return ()
        if stop is not None:
            self.hold([stop.event])
            await self._fail(limits, stop.sentence, stop.limit)
            return (TaskEnded("failed", stop.sentence, stop.limit),)
        if last is not None and last.finish_reason is FinishReason.content_filter:
            await self._fail(limits, _WITHHELD, "content_filter")
            return (TaskEnded("failed", _WITHHELD),)
        self.hold(
            [
                task_events.AgentCompleted(
                    turns=limits.turns,
                    input_tokens=self._used.input_tokens,
                    output_tokens=self._used.output_tokens,
                )
            ]
        )
        await self.flush()
        is_cut = last is not None and last.finish_reason is FinishReason.length
        return (TaskEnded("done", CUT_OFF if is_cut else ""),)

    async def fail(self, limits: LimitTracker, error: ModelError) -> TaskEnded:
        await self._fail(limits, str(error), error.fault.value)
        return TaskEnded("failed", str(error))

    async def _fail(self, limits: LimitTracker, error: str, error_class: str) -> None:
        failed = task_events.AgentFailed(
            turns=limits.turns,
            error=error,
            error_class=error_class,
            agent=self._agent,
            actor=self._assignment.who,
        )
        self.hold([failed])
        await self.flush()

    async def close(self) -> None:
        """Write what is still held back, however the work ended. Errors are reported elsewhere."""
        try:
            await self._appender.flush()
        except StoreError as error:
            _log.warning("not_recorded", session_id=self._session_id, error=str(error))

    async def flush(self) -> None:
        """Wait until everything is on disk and every message has its number."""
        await self._appender.flush()
        for draft, entry in self._unnumbered:
            entry.seq = draft.seq
        self._unnumbered.clear()

    def _add(self, held: DraftedMessage) -> None:
        if (entry := self._conversation.add(held.message)) is not None:
            self._unnumbered.append((held.draft, entry))

    def _record_message(self, message: "StorableMessage", draft: EventDraft) -> None:
        self._appender.hold(draft)
        self._add(DraftedMessage(message.message(), draft))
        self._last_text = message.content

    def _draft_reply(self, reply: ModelReply, authority: Authority) -> "StorableMessage":
        """The message to store.

        Calls have the tool's name, and the name that the model used if it differs.
        """
        calls = [
            {"id": call.call_id, "name": name, "arguments": call.arguments}
            | ({} if name == call.name else {"called_as": call.name})
            for call in reply.tool_calls
            for name in [authority.names.get(call.name, call.name)]
        ]
        return self._sessions.draft(Role.assistant, reply.text, tool_calls=calls, reasoning=reply.reasoning)
