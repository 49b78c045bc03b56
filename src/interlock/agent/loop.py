"""The agent loop: call the model, run its tool calls, return the results, until it answers or must stop."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field, replace

from interlock.agent.budget import PriceTable, UsageTotalsReader
from interlock.agent.circuit_breaker import CircuitBreakers
from interlock.agent.context import ModelContext
from interlock.agent.events import AgentEvent, AskUser, Emit, EventQueue, TextDelta, TurnCompleted
from interlock.agent.limit_tracker import LimitTracker
from interlock.agent.limits import LimitStop
from interlock.agent.model_turn import ModelTurnRunner, OpenProvider, TurnReply, TurnRequest
from interlock.agent.prompt_builder import PromptBuilder, SessionPrompt
from interlock.agent.resume import ResumeState, TaskHistory, read_resume_state
from interlock.agent.task_recorder import TaskAssignment, TaskRecorder
from interlock.agent.tool_calls import CallResults, ToolCallScheduler, TurnScope
from interlock.config.limits import TaskLimitSettings
from interlock.config.modes import ToolMode
from interlock.core.aio import cancel_and_wait
from interlock.db.database import Database
from interlock.gates.gate import ToolCall
from interlock.gates.runner import ToolRunner
from interlock.log.writer import EventLog
from interlock.models.provider import (
    FinishReason,
    ModelError,
    ModelReply,
    ModelRequest,
    ToolChoice,
)
from interlock.policy.authority import Authority
from interlock.redaction.redactor import Redactor
from interlock.sessions.manager import SessionManager
from interlock.sessions.models import Role
from interlock.tools.result import ToolResult
from interlock.tools.tool import ToolContext

NO_WORDS = "I could not do this: the calls that it needs were denied, as shown above."


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
    # What the operator listed after that model.
    fallbacks_of: Callable[[str], Sequence[str]]
    breakers: CircuitBreakers
    limits: TaskLimitSettings
    prices: PriceTable
    context_tokens: int
    # The setting MODEL_TOOL_CHOICE.
    tool_choice: str = "default"
    # Whether the model writes the summary of older messages.
    writes_summaries: bool = False
    # The values of MODEL whose models rejected a required tool call.
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
        a task's is. Between turns the work waits for its reader; closed early, it ends before this does.
        """
        events = EventQueue()
        work = asyncio.create_task(self.run_task(session_id, content, assignment, events))
        work.add_done_callback(events.close)
        try:
            while batch := await events.take():
                for event in batch:
                    yield event
            await work
        finally:
            await cancel_and_wait(work)

    async def run_task(
        self, session_id: str, content: str | None, assignment: TaskAssignment | None, events: EventQueue
    ) -> None:
        """Ask the model and run the calls it makes, until it answers, waits or a limit stops it."""
        task = await self._open_task(session_id, content, assignment)
        recorder, limits, emit = task.recorder, task.limits, events.emit
        reply, stop = task.answer, None
        # The events of the last turn, which are emitted when the end of the task is on disk.
        last = [] if reply is None else _shown_again(limits.turns, reply)
        try:
            results = await self._finish_earlier_calls(task, emit)
            is_over = bool(reply or results.waiting)
            while not is_over:
                if (stop := limits.before_turn(await task.usage.history())) is not None:
                    break
                await recorder.take_steering()
                task.prompt = await self._services.prompts.renew(task.prompt)
                await self._compact(task)
                turn, asked = task.begin_turn()
                is_last, closing = limits.refusal_limit is not None, ""
                answer = await task.model.stream_turn(asked, emit)
                if isinstance(answer, LimitStop):
                    stop = answer
                    break
                if is_last:
                    answer, closing = _final_answer(answer, emit)
                reply, usage = recorder.record_reply(answer, turn)
                limits.reply_received(usage)
                results = await task.calls.run_calls(reply.tool_calls, turn, emit)
                recorder.record_results(results)
                stop = results.stop
                completed = recorder.end_turn(asked.turn, turn, reply, usage, closing=closing)
                is_over = bool(results.waiting or stop or is_last or not reply.tool_calls)
                if is_over:
                    last = [completed]
                else:
                    emit(completed)
                    await events.taken()
            ended = await recorder.end(limits, stop, reply, results)
            for event in (*last, *ended):
                emit(event)
        except ModelError as error:
            emit(await recorder.fail(limits, error))
        finally:
            await recorder.close()

    async def _compact(self, task: "_Task") -> None:
        """Shorten a conversation that is too long: by a summary of the model if the operator chose so."""
        conversation, reserved, summary = task.conversation, task.prompt.tokens, None
        is_wanted, task.wants_compaction = task.wants_compaction, False
        if not (is_wanted or conversation.is_too_long(reserved)):
            return
        older = conversation.older_messages(reserved, all_older=is_wanted)
        if older and self._services.writes_summaries:
            summary = await task.model.summarize(older, budget_tokens=conversation.summary_tokens)
        if summary is not None:
            task.limits.reply_received(summary.usage)
        await task.recorder.compact(
            reserved=reserved, summary=summary, model=task.model.name, all_older=is_wanted
        )

    async def _finish_earlier_calls(self, task: "_Task", emit: Emit) -> CallResults:
        """Complete calls that an earlier attempt left without a result, or whose answer has arrived."""
        left = task.task_history.settle(task.conversation.unanswered, task.prompt.mode.value)
        if not left:
            return CallResults()
        turn = task.recorder.earlier_turn(task.task_history.last_turn, task.prompt.authority)
        for call_id, question_id in left.waiting.items():
            emit(AskUser(call_id, question_id))
        answers = task.calls.answers_from_log(left.answers, turn)
        ran = await task.calls.run_calls(left.to_run, turn, emit)
        results = CallResults(answers | ran.answers, waiting={**left.waiting, **ran.waiting})
        task.recorder.record_results(results)
        return results

    async def _execute_tool(self, call: ToolCall, authority: Authority, context: ToolContext) -> ToolResult:
        """The loop's only way to run a tool, through the gate."""
        return await self._services.runner.call(call, authority, context)

    async def _open_task(
        self, session_id: str, content: str | None, assignment: TaskAssignment | None
    ) -> "_Task":
        services = self._services
        given = assignment or TaskAssignment(await services.sessions.get_mode(session_id))
        if content is not None:
            await services.sessions.append_message(
                session_id, Role.user, content, scope=given.scope, token=given.lease_token
            )
        resume_state = await services.database.read(
            lambda db: read_resume_state(db, session_id, given.scope.task, given.attempt)
        )
        task_history = resume_state.task_history
        prompt = await services.prompts.prepare(session_id, given.mode, task_history.agent, who=given.who)
        provider = services.provider_of(prompt.inputs.model)
        conversation = ModelContext(
            resume_state.messages, budget=services.context_tokens, is_part=resume_state.is_part
        )
        for through, summary in resume_state.compactions:
            conversation.compact_through(through, summary=summary)
        used = task_history.used(services.prices, resume_state.messages, prompt.authority.names)
        limits = LimitTracker(services.limits, model=provider.name, prices=services.prices, used=used)
        recorder = TaskRecorder(
            *(services.sessions, services.log, session_id, given, conversation, provider.name),
            used=task_history.own_usage,
        )
        recorder.begin(prompt.inputs.agent)
        return _Task(
            prompt=prompt,
            conversation=conversation,
            task_history=task_history,
            must_call=self._must_call(given, resume_state, prompt.inputs.model),
            wants_compaction=resume_state.wants_compaction,
            answer=resume_state.answer,
            limits=limits,
            usage=UsageTotalsReader(services.database, services.limits, services.prices, session_id),
            recorder=recorder,
            model=ModelTurnRunner(
                prompt.inputs.model,
                fallbacks=services.fallbacks_of(prompt.inputs.model),
                provider_of=services.provider_of,
                redactor=services.redactor,
                breakers=services.breakers,
                refuses_required=services.refuses_required,
                settings=services.limits,
                limits=limits,
                hold=recorder.hold,
                append=recorder.append,
                discard=recorder.discard,
                flush=recorder.flush,
            ),
            calls=ToolCallScheduler(
                self._execute_tool,
                runner=services.runner,
                redactor=services.redactor,
                breakers=services.breakers,
                limits=limits,
                hold=recorder.hold,
                hold_result=recorder.hold_result,
            ),
        )

    def _must_call(self, assignment: TaskAssignment, resume_state: ResumeState, model: str) -> bool:
        """Whether the first turn must call a tool. Later ones need not: the task must be able to end."""
        services = self._services
        may = assignment.mode is ToolMode.coding and assignment.attempt == 1
        wanted = services.tool_choice == "required" or (
            services.tool_choice == "default" and resume_state.entered_coding
        )
        return may and wanted and model not in services.refuses_required


def _shown_again(turn: int, answer: ModelReply) -> list[AgentEvent]:
    """The turn of an answer that an earlier attempt already had: the model is not asked again."""
    return [TextDelta(turn, 0, answer.text), TurnCompleted(turn, answer.text, 0, 0, 0)]


def _final_answer(answer: TurnReply, emit: Emit) -> tuple[TurnReply, str]:
    """The reply of a turn without tools as stored, and the answer, if it follows calls.

    Calls are stored and answered although no tools were offered, and the answer is the task's last message.
    """
    reply = answer.reply
    is_withheld = reply.finish_reason is FinishReason.content_filter
    text = reply.text if reply.text.strip() or is_withheld else NO_WORDS
    if text == NO_WORDS:
        emit(TextDelta(answer.asked.turn, 0, NO_WORDS))
    stored = replace(reply, text="" if reply.tool_calls else text)
    return replace(answer, reply=stored), text if reply.tool_calls else ""


@dataclass(slots=True, kw_only=True)
class _Task:
    """One assignment in progress."""

    prompt: SessionPrompt
    conversation: ModelContext
    task_history: TaskHistory
    # Its first turn must call a tool.
    must_call: bool
    # A person asked to have older messages summarised.
    wants_compaction: bool
    # The final answer, if an earlier attempt already had it.
    answer: ModelReply | None
    limits: LimitTracker
    usage: UsageTotalsReader
    recorder: TaskRecorder
    model: ModelTurnRunner
    calls: ToolCallScheduler

    def begin_turn(self) -> tuple[TurnScope, TurnRequest]:
        authority, number = self.prompt.authority, self.limits.turns
        limit = self.limits.refusal_limit
        if limit is not None and limit.limit not in self.task_history.limits_reached:
            self.recorder.hold([limit.event])
        if limit is not None or not authority.exposed:
            choice = ToolChoice.none
        else:
            choice = ToolChoice.required if number == 1 and self.must_call else ToolChoice.auto
        turn = self.recorder.begin_turn(authority)
        request = ModelRequest(
            messages=(self.prompt.message, *self.conversation.messages()),
            tools=b"" if choice is ToolChoice.none else authority.schemas,
            tool_choice=choice,
        )
        return turn, TurnRequest(number, request, began=asyncio.get_running_loop().time())
