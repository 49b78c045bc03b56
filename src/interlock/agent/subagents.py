"""Delegated tasks: another agent's loop, under the same lease, with its own conversation.

A child is bound by its own agent's policy and by the Authority of the delegating call. Its events are below
that call, in a task named after its parent: `t_1.2` is the second of `t_1`. It is not resumed: after a
crash its call is reported as interrupted, and nothing runs twice.
"""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from decimal import Decimal

from interlock.agent.budget import UsageCost
from interlock.agent.definitions import AgentDefinition, AgentDirectory, AgentInvalid, AgentNotFound
from interlock.agent.events import TaskEnded, ToolCallInfo, TurnCompleted
from interlock.agent.limits import ControlLimits
from interlock.agent.loop import AgentLoop, AgentServices
from interlock.agent.prompt_builder import PromptInputs
from interlock.agent.task_recorder import TaskAssignment
from interlock.config.modes import ToolMode
from interlock.core.errors import ErrorCode, ToolError
from interlock.core.text import safe_excerpt
from interlock.core.threads import DaemonThreadPool
from interlock.db.driver import DbConnection
from interlock.log.event import IS_MILESTONE
from interlock.log.kinds import merge_payload
from interlock.log.stream_appender import EventScope
from interlock.log.usage import read_task_usage
from interlock.policy.authority import Authority
from interlock.policy.delegation import DelegatedAuthority, child_policy
from interlock.redaction.redactor import MARK
from interlock.sessions.models import SessionKind
from interlock.tools.result import ToolFailure, ToolResult
from interlock.tools.tool import ToolContext

# A task may delegate, and so may its child, no deeper.
MAX_DEPTH = 2
# How many tasks one task may delegate in total.
MAX_SUBTASKS = 8
# Time reserved at the end of a call, by which the child must have ended.
MARGIN_SECONDS = 2.0

# Events within a task come after its own first event.
_WITHIN = f"""
SELECT DISTINCT task FROM events WHERE stream = ? AND substr(task, 1, ?) = ?
    AND seq >= coalesce((SELECT min(seq) FROM events WHERE stream = ? AND task = ? AND {IS_MILESTONE}), 0)
"""  # noqa: S608 - a constant
REQUEST = f"""
SELECT facts FROM events WHERE stream = ? AND task = ? AND kind = 'task.queued' AND {IS_MILESTONE}
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class SubagentLookups:
    """Looks up the Authority of a digest, and builds that of a child at a depth."""

    compiled: Callable[[str], Authority | None]
    authority: Callable[[str, DelegatedAuthority, bool], Awaitable[Authority]]
    model: Callable[[str, AgentDefinition], Awaitable[str]]


class SubagentRunner:
    def __init__(self, services: AgentServices, agents: AgentDirectory, rules: SubagentLookups) -> None:
        self._services = services
        self._agents = agents
        self._rules = rules
        self._threads = DaemonThreadPool("interlock-children")

    async def require_agent(self, name: str) -> None:
        await self._agent(name)

    async def work(self, agent: str, task: str, context: ToolContext) -> ToolResult:
        parent = self._rules.compiled(context.authority_digest)
        if parent is None or context.scope.task is None:
            raise _refused("only an agent that works on a task can delegate")
        child = await self._agent(agent)
        session_id, database = context.session_id, self._services.database
        task_id = await database.read(lambda db: _next_child(db, context))
        who = await database.read(lambda db: _requested_by(db, context))
        limits = await self._limits(context)
        scope = EventScope(task_id, context.scope.parent)
        loop = AgentLoop(self._services_for(child, parent, task_id, limits))
        assignment = TaskAssignment(
            parent.mode, scope, context.lease_token, context.cancel.is_held, who=who
        )
        answer, ended = "", TaskEnded("failed", "it ended without an answer")
        async with aclosing(loop.handle_message(session_id, task, assignment)) as events:
            async for event in events:
                if isinstance(event, TurnCompleted):
                    answer = event.text
                elif isinstance(event, ToolCallInfo):
                    context.report_progress(f"{child.name}: {event.tool_name}\n")
                elif isinstance(event, TaskEnded):
                    ended = event
        used = await self._services.database.read(
            lambda db: read_task_usage(db, context.session_id, task_id)
        )
        return ToolResult(
            exit_code=0 if ended.status == "done" else 1,
            stdout=f"{answer}\n" if answer else "",
            meta={"agent": child.name, "task_id": task_id},
            failure=None if ended.status == "done" else _unfinished(child.name, ended.sentence, parent),
            used={model: (usage.input_tokens, usage.output_tokens) for model, usage in used.items()},
            # The child's text is already redacted.
            redacted=MARK in answer or MARK in ended.sentence,
        )

    def _services_for(
        self,
        agent: AgentDefinition,
        parent: Authority,
        task_id: str,
        limits: ControlLimits,
    ) -> AgentServices:
        can_hand_over = task_id.count(".") < MAX_DEPTH
        source = _ChildPromptInputs(self._rules, agent, parent, can_hand_over=can_hand_over)
        return replace(self._services, prompts=self._services.prompts.with_source(source), limits=limits)

    async def _limits(self, context: ToolContext) -> ControlLimits:
        """The limits of a child: its own turns, and what its parent has left of tokens and money."""
        limits, root = self._services.limits, (context.scope.task or "").partition(".")[0]
        used = await self._services.database.read(lambda db: read_task_usage(db, context.session_id, root))
        spent = self._services.prices.spent(used)
        return replace(
            limits,
            max_wall_seconds=min(
                limits.max_wall_seconds, max(0.1, context.timeout_seconds - MARGIN_SECONDS)
            ),
            max_tokens=max(0, limits.max_tokens - spent.tokens),
            max_cost=_left(limits.max_cost, spent),
        )

    async def _agent(self, name: str) -> AgentDefinition:
        try:
            return await self._threads.start(lambda: self._agents.load(name))
        except (AgentNotFound, AgentInvalid) as error:
            survey = await self._threads.start(self._agents.survey)
            names = ", ".join(agent.name for agent in survey.agents) or "none"
            raise ToolError(
                ErrorCode.INVALID_ARGS, safe_excerpt(str(error), 300), f"The agents are: {names}."
            ) from None


class _ChildPromptInputs:
    """The inputs of a delegated task's prompts: its agent, under what its parent may do."""

    def __init__(
        self, rules: SubagentLookups, agent: AgentDefinition, parent: Authority, *, can_hand_over: bool
    ) -> None:
        self._rules = rules
        self._agent = agent
        self._parent = parent
        self._can_hand_over = can_hand_over

    async def begin(
        self, session_id: str, _mode: ToolMode, _pin: tuple[str, str] | None, _who: str
    ) -> PromptInputs:
        return PromptInputs(
            SessionKind.agent, self._agent, await self._rules.model(session_id, self._agent)
        )

    async def authority(self, session_id: str, mode: ToolMode, _inputs: PromptInputs) -> Authority:
        # The parent's mode at first, then the mode it was tightened to.
        handed = replace(child_policy(self._parent, self._agent.tools), mode=mode)
        return await self._rules.authority(session_id, handed, self._can_hand_over)


def _next_child(connection: DbConnection, context: ToolContext) -> str:
    parent = context.scope.task or ""
    if parent.count(".") >= MAX_DEPTH:
        raise _refused(f"a task can be delegated at most {MAX_DEPTH} levels deep")
    prefix = f"{parent}."
    rows = connection.query(_WITHIN, (context.session_id, len(prefix), prefix, context.session_id, parent))
    own = {str(row[0]).removeprefix(prefix).partition(".")[0] for row in rows}
    if len(own) >= MAX_SUBTASKS:
        raise _refused(f"this task has already delegated {MAX_SUBTASKS} tasks, the maximum")
    return f"{prefix}{len(own) + 1}"


def _requested_by(connection: DbConnection, context: ToolContext) -> str:
    """The person whose task delegates; empty for a program's own tasks."""
    task = (context.scope.task or "").partition(".")[0]
    rows = connection.query(REQUEST, (context.session_id, task))
    return str(merge_payload(rows[0][0], None).get("who", "")) if rows else ""


def _left(limit: Decimal | None, spent: UsageCost) -> Decimal | None:
    if limit is None or spent.cost is None:
        return limit
    return max(Decimal(0), limit - spent.cost)


def _unfinished(agent: str, sentence: str, parent: Authority) -> ToolFailure:
    code = ErrorCode.EXECUTION_ERROR
    return ToolFailure(
        error_code=code,
        error_class=code.error_class,
        tool_name="delegate",
        mode=parent.mode.value,
        message=f"{agent} did not finish: {sentence}",
        next_action="Check what it did before you delegate again, or do it yourself.",
    )


def _refused(reason: str) -> ToolError:
    next_action = "Do it yourself, or report what is left to do."
    return ToolError(ErrorCode.EXECUTION_ERROR, reason, next_action, is_an_answer=True)
