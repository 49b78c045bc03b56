"""The agent loop: call the model, run its tool calls, return the results, until it answers or must stop."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from interlock.agent.budget import PriceTable, UsageTotalsReader
from interlock.agent.circuit_breaker import CircuitBreakers
from interlock.agent.context import ModelContext
from interlock.agent.events import AgentEvent, AskUser, TextDelta, TurnCompleted
from interlock.agent.limit_tracker import LimitTracker
from interlock.agent.limits import ControlLimits
from interlock.agent.model_turn import ModelTurnRunner, TurnRequest
from interlock.agent.prompt_builder import PromptBuilder, SessionPrompt
from interlock.agent.resume import ResumeState, TaskHistory, read_resume_state
from interlock.agent.retries import TurnRetries
from interlock.agent.task_recorder import TaskAssignment, TaskRecorder
from interlock.agent.tool_calls import ToolCallBatchResult, ToolCallScheduler, TurnScope
from interlock.config.modes import ToolMode
from interlock.db.database import Database
from interlock.gates.gate import ToolCall
from interlock.gates.runner import CallContext, ToolRunner
from interlock.log.writer import EventLog
from interlock.models.provider import (
    FinishReason,
    ModelError,
    ModelProvider,
    ModelReply,
    ModelRequest,
    ToolChoice,
)
from interlock.policy.authority import Authority
from interlock.redaction.redactor import Redactor
from interlock.sessions.manager import SessionManager
from interlock.sessions.models import Role
from interlock.tools.result import ToolResult

NO_WORDS = "I could not do this: the calls that it needs were denied, as shown above."

OpenProvider = Callable[[str], ModelProvider]


@dataclass(frozen=True, slots=True)
class AgentServices:
    """The services of the loop. `provider_of` opens a model by a value of the setting MODEL."""

    database: Database
    sessions: SessionManager
    log: EventLog
    runner: ToolRunner
    prompts: PromptBuilder
    redactor: Redactor
    provider_of: OpenProvider
    breakers: CircuitBreakers
    limits: ControlLimits
    prices: PriceTable
    context_tokens: int
    # The setting MODEL_TOOL_CHOICE.
    tool_choice: str = "default"
    # Models of this process that rejected a required tool call.
    refuses_required: set[str] = field(default_factory=set)


class AgentLoop:
    """Everything is on disk before its event is emitted, except the text of the current answer."""

    def __init__(self, services: AgentServices) -> None:
        self._services = services

    async def handle_message(
        self, session_id: str, content: str | None, assignment: TaskAssignment | None = None
    ) -> AsyncGenerator[AgentEvent]:
        """Work on a message until it is answered, starting from the state in the log.

        Without an assignment the mode is read here, once. Without content the message is already stored, as
        a task's is.
        """
        sessions = self._services.sessions
        given = assignment or TaskAssignment(await sessions.get_mode(session_id))
        if content is not None:
            await sessions.append_message(
                session_id, Role.user, content, scope=given.scope, token=given.lease_token
            )
        task = await self._take_up(session_id, given)
        try:
            stages = (self._finish_earlier, self._turns) if task.answer is None else (self._end_earlier,)
            for stage in stages:
                async with aclosing(stage(task)) as events:
                    async for event in events:
                        yield event
                if task.end.waiting:
                    return
        except ModelError as error:
            yield await task.recording.fail(task.control, error)
        finally:
            await task.recording.close()

    async def _turns(self, task: "_Task") -> AsyncGenerator[AgentEvent]:
        reply: ModelReply | None = None
        turned: TurnCompleted | None = None
        while (stop := task.control.before_turn(await task.spending.history())) is None:
            task.prompt = await self._services.prompts.renew(task.prompt)
            await task.recording.compact(reserved=task.prompt.tokens)
            is_last = task.control.refusal_limit is not None
            turn, question = task.begin_turn()
            async with aclosing(task.asking.ask(question, TurnRetries(self._services.limits))) as events:
                async for event in events:
                    yield event
            if (stop := question.stop) is not None:
                break
            closing = ""
            if is_last and question.reply is not None:
                question.reply, closing = _ending(question.reply)
                if NO_WORDS in (closing, question.reply.text):
                    yield TextDelta(question.turn, 0, NO_WORDS)
            reply, usage = task.recording.keep(question, turn)
            task.control.reply_received(usage)
            task.end = ToolCallBatchResult()
            async with aclosing(task.calling.run(reply.tool_calls, turn, task.end)) as events:
                async for event in events:
                    yield event
            turned = task.recording.end_turn(question.turn, turn, reply, usage, task.end, closing=closing)
            stop = task.end.stop
            if task.end.waiting or stop is not None or is_last or not reply.tool_calls:
                break
            yield turned
            turned = None
        ended = await task.recording.end(task.control, stop, reply, task.end)
        if turned is not None:
            yield turned
        if ended is not None:
            yield ended

    async def _finish_earlier(self, task: "_Task") -> AsyncGenerator[AgentEvent]:
        """Complete calls that an earlier attempt left without a result, or whose answer has arrived."""
        left = task.task_history.settle(task.conversation.unanswered, task.prompt.mode.value)
        if not left:
            return
        turn = task.recording.earlier_turn(task.task_history.last_turn, task.prompt.authority)
        for call_id, question_id in left.waiting.items():
            task.end.waiting[call_id] = question_id
            yield AskUser(call_id, question_id)
        task.calling.answer_known(left.answers, turn, task.end)
        async with aclosing(task.calling.run(left.to_run, turn, task.end)) as events:
            async for event in events:
                yield event
        task.recording.take(task.end)

    async def _end_earlier(self, task: "_Task") -> AsyncGenerator[AgentEvent]:
        """End a task whose answer an earlier attempt already has, without calling the model again."""
        text = task.answer.text if task.answer else ""
        ended = await task.recording.end(task.control, None, task.answer, task.end)
        yield TextDelta(task.control.turns, 0, text)
        yield TurnCompleted(task.control.turns, text, 0, 0, 0)
        if ended is not None:
            yield ended

    async def _execute_tool(self, call: ToolCall, authority: Authority, context: CallContext) -> ToolResult:
        """The loop's only way to run a tool, through the gate."""
        return await self._services.runner.call(call, authority, context)

    async def _take_up(self, session_id: str, assignment: TaskAssignment) -> "_Task":
        here = self._services
        resume_state = await here.database.read(
            lambda db: read_resume_state(db, session_id, assignment.scope.task, assignment.attempt)
        )
        task_history = resume_state.task_history
        prompt = await here.prompts.prepare(
            session_id, assignment.mode, task_history.agent, who=assignment.who
        )
        provider = here.provider_of(prompt.inputs.model)
        conversation = ModelContext(
            resume_state.messages, budget=here.context_tokens, is_part=resume_state.is_part
        )
        conversation.compact_through(resume_state.compacted_through)
        used = task_history.used(here.prices, resume_state.messages, prompt.authority.names)
        control = LimitTracker(here.limits, model=provider.name, prices=here.prices, used=used)
        recording = TaskRecorder(
            *(here.sessions, here.log, session_id, assignment, conversation, provider.name),
            used=task_history.own_usage,
        )
        recording.begin(prompt.inputs.agent)
        hold = recording.hold
        return _Task(
            prompt=prompt,
            conversation=conversation,
            task_history=task_history,
            must_call=self._must_call(assignment, resume_state, provider),
            answer=resume_state.answer,
            control=control,
            spending=UsageTotalsReader(here.database, here.limits, here.prices, session_id),
            recording=recording,
            asking=ModelTurnRunner(
                *(provider, here.redactor, here.breakers, here.refuses_required, control, hold),
                recording.append,
            ),
            calling=ToolCallScheduler(
                self._execute_tool,
                here.runner,
                here.sessions,
                here.log,
                here.redactor,
                here.breakers,
                control,
                hold,
            ),
        )

    def _must_call(
        self, assignment: TaskAssignment, resume_state: ResumeState, provider: ModelProvider
    ) -> bool:
        """Whether the first turn must call a tool. Later ones need not: the task must be able to end."""
        here = self._services
        may = assignment.mode is ToolMode.coding and assignment.attempt == 1
        wanted = here.tool_choice == "required" or (
            here.tool_choice == "default" and resume_state.entered_coding
        )
        return may and wanted and provider.name not in here.refuses_required


def _ending(reply: ModelReply) -> tuple[ModelReply, str]:
    """The reply of a turn without tools as stored, and the answer, if it follows calls.

    Calls are stored and answered although no tools were offered, and the answer is the task's last message.
    """
    is_withheld = reply.finish_reason is FinishReason.content_filter
    text = reply.text if reply.text.strip() or is_withheld else NO_WORDS
    return (replace(reply, text=""), text) if reply.tool_calls else (replace(reply, text=text), "")


@dataclass(slots=True, kw_only=True)
class _Task:
    """One assignment in progress."""

    prompt: SessionPrompt
    conversation: ModelContext
    task_history: TaskHistory
    # Its first turn must call a tool.
    must_call: bool
    # The final answer, if an earlier attempt already had it.
    answer: ModelReply | None
    control: LimitTracker
    spending: UsageTotalsReader
    recording: TaskRecorder
    asking: ModelTurnRunner
    calling: ToolCallScheduler
    end: ToolCallBatchResult = field(default_factory=ToolCallBatchResult)

    def begin_turn(self) -> tuple[TurnScope, TurnRequest]:
        authority, number = self.prompt.authority, self.control.turns
        limit = self.control.refusal_limit
        if limit is not None and limit.limit not in self.task_history.limits_reached:
            self.recording.hold([limit.event])
        if limit is not None or not authority.exposed:
            choice = ToolChoice.none
        else:
            choice = ToolChoice.required if number == 1 and self.must_call else ToolChoice.auto
        turn = self.recording.begin_turn(authority)
        request = ModelRequest(
            messages=(self.prompt.message, *self.conversation.messages()),
            tools=b"" if choice is ToolChoice.none else authority.schemas,
            tool_choice=choice,
        )
        return turn, TurnRequest(number, request, began=asyncio.get_running_loop().time())
