"""A chat session opened from command-line options, shared by `chat` and `exec`."""

import asyncio
import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from interlock.cli.runtime import open_cli_runtime, parse_mode_argument, resolve_root_arguments
from interlock.config.modes import ToolMode
from interlock.core.errors import BadUsage, ModeNotOpen, UserError
from interlock.log.event import IS_MILESTONE
from interlock.sessions.models import title_from_message

if TYPE_CHECKING:
    from interlock.agent.events import AgentEvent
    from interlock.channels.terminal.local_session import LocalSession, ShowEvent
    from interlock.policy.authority import Authority
    from interlock.questions.rows import Question
    from interlock.runtime.task_rows import Task
    from interlock.sessions.models import Message, Session
    from interlock.wiring.agents import AgentRuntime

RootOptions = Annotated[tuple[Path, ...], Parameter(consume_multiple=False, negative=())]

WHY_FAILED = f"""
SELECT facts FROM events WHERE stream = ? AND task = ? AND kind = 'agent.failed' AND {IS_MILESTONE}
ORDER BY seq DESC LIMIT 1
"""  # noqa: S608 - a constant


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The options of `chat` and `exec`, parsed."""

    mode: ToolMode | None
    roots: tuple[Path, ...] | None
    session: str | None
    agent: str | None
    model: str | None


def parse_chat_options(
    mode: str | None, root: tuple[Path, ...], session: str | None, agent: str | None, model: str | None
) -> ChatOptions:
    if session is not None and agent is not None:
        raise BadUsage("a session keeps the agent it was created with; use --agent only for a new session")
    return ChatOptions(
        parse_mode_argument(mode) if mode else None, resolve_root_arguments(root), session, agent, model
    )


class CommandLineSession:
    """The command line's client of the agent runtime. Its session is created with the first message."""

    def __init__(
        self, agent_runtime: "AgentRuntime", wanted: ChatOptions, show: "ShowEvent", opened_by: str
    ) -> None:
        from interlock.wiring import local_actor

        self._opened_by = opened_by
        self.agent_runtime = agent_runtime
        self.person = local_actor()
        self._wanted = wanted
        self._show = show
        self._local_session: LocalSession | None = None

    @property
    def session_id(self) -> str | None:
        return self._local_session.session_id if self._local_session else self._wanted.session

    async def check(self) -> None:
        """Check that the named agent, model and session exist, before the first message."""
        if self._wanted.agent is not None:
            self.agent_runtime.agents.load(self._wanted.agent)
        if self._wanted.model is not None:
            self.agent_runtime.models.listed(self._wanted.model)
        self.agent_runtime.models.open(self._wanted.model or self.agent_runtime.models.usual)
        if self._wanted.session is not None:
            session = await self.agent_runtime.runtime.sessions.get(self._wanted.session)
            await self._continue(session)

    async def local_session(self, first_words: str = "") -> "LocalSession":
        if self._local_session is None:
            session = await self.agent_runtime.runtime.sessions.create(
                opened_by=self._opened_by,
                title=title_from_message(first_words),
                mode=self._wanted.mode,
                agent=self._wanted.agent,
                model=self._wanted.model,
            )
            self._local_session = self.talk_in(session.id)
        return self._local_session

    def start_new_session(self) -> None:
        """Start a new session with the next message."""
        self._local_session = None
        self._wanted = replace(self._wanted, session=None)

    async def mode(self) -> ToolMode:
        if self._local_session is None:
            return self._wanted.mode or ToolMode.chat_safe
        return await self.agent_runtime.runtime.sessions.get_mode(self._local_session.session_id)

    async def stored_mode(self) -> ToolMode | None:
        """The mode stored with a continued session, whether or not it is open now."""
        if self._local_session is None:
            return None
        stored = (await self.agent_runtime.runtime.sessions.get(self._local_session.session_id)).stored_mode
        return ToolMode(stored) if stored in ToolMode.__members__ else None

    def resume_command(self, mode: ToolMode | None = None) -> str:
        """The command that continues this session.

        It repeats the mode and roots: they apply to one process.
        """
        words = ["interlock", "chat"]
        if self.session_id is not None:
            words += ["--session", self.session_id]
        chosen = mode or self._wanted.mode
        if chosen is not None:
            words += ["--mode", chosen.value]
        if self._wanted.roots is not None:
            words += [word for root in self._wanted.roots for word in ("--root", str(root))]
        elif mode is not None:
            words += ["--root", "FOLDER"]
        return shlex.join(words)

    async def model(self) -> str:
        """The model for the next task: the person's choice, else the agent's, else the default."""
        chosen, agent = self._wanted.model, self._wanted.agent
        if self.session_id is not None:
            session = await self.agent_runtime.runtime.sessions.get(self.session_id)
            chosen, agent = session.model, session.agent
        if chosen is None and agent is not None:
            # A missing or invalid agent file is reported when a task starts.
            with suppress(UserError):
                chosen = self.agent_runtime.agents.load(agent).model
        return chosen or self.agent_runtime.models.usual

    async def switch_mode(self, mode: ToolMode) -> None:
        """Switch the session's mode, or set the mode for the session to be created."""
        if self._local_session is not None:
            await self.agent_runtime.runtime.mode_switch.switch(
                self._local_session.session_id, mode, who=self.person
            )
        elif mode not in self.agent_runtime.runtime.authority_inputs.open_modes:
            raise ModeNotOpen(f"{mode} mode is not open here")
        self._wanted = replace(self._wanted, mode=mode)

    async def choose_model(self, name: str) -> None:
        self.agent_runtime.models.open(name)
        if self._local_session is None:
            self._wanted = replace(self._wanted, model=name)
        else:
            await self.agent_runtime.runtime.sessions.choose_model(
                self._local_session.session_id, name, who=self.person
            )

    async def request_compaction(self) -> None:
        session_id = (await self.local_session()).session_id
        await self.agent_runtime.runtime.sessions.request_compaction(session_id, who=self.person)

    async def authority(self) -> "Authority":
        """The authority of the next task."""
        from interlock.policy.policy_fields import NO_RESTRICTION
        from interlock.wiring.authority_inputs import AT_WORK

        mode = await self.mode()
        if self._local_session is None:
            agent = self._wanted.agent
            tools = self.agent_runtime.agents.load(agent).tools if agent else NO_RESTRICTION
            return await self.agent_runtime.runtime.authority(mode, agent=tools, offered=AT_WORK)
        return (
            await self.agent_runtime.prompts.prepare(self._local_session.session_id, mode, who=self.person)
        ).authority

    async def build(self, question: "Question", answer: "Mapping[str, Any] | None" = None) -> "Task":
        """Build an approved plan; with `answer`, approve it first."""
        plans = self.agent_runtime.plans
        if answer is None:
            return (await plans.build(question.id, who=self.person)).task
        return (await plans.approve(question.id, answer, who=self.person)).task

    async def history(self) -> "list[Message]":
        return await self.agent_runtime.runtime.sessions.history(self.session_id) if self.session_id else []

    async def tasks(self) -> "list[Task]":
        """The tasks of the session, newest first."""
        return await self.agent_runtime.tasks.list_tasks(session_id=self.session_id or "")

    async def last_denial(self) -> dict[str, Any] | None:
        from interlock.sessions.slash_commands import read_last_denial

        session_id = self.session_id or ""
        return await self.agent_runtime.runtime.database.read(lambda db: read_last_denial(db, session_id))

    async def answer_of(self, task: "Task") -> str:
        """The task's final answer, whichever process worked on it; empty if it has none."""
        from interlock.sessions.transcript import read_task_messages

        place = (task.session_id, task.message_seq, task.id)
        said = await self.agent_runtime.runtime.database.read(lambda db: read_task_messages(db, *place))
        is_answer = said and said[-1].role.value == "assistant" and not said[-1].tool_calls
        return said[-1].content if is_answer else ""

    async def was_ended_by_limit(self, task: "Task") -> bool:
        """Whether the log says that a limit ended the task."""
        import orjson

        from interlock.agent.limits import LIMIT_NAMES

        place = (task.session_id, task.id)
        rows = await self.agent_runtime.runtime.database.read(lambda db: db.query(WHY_FAILED, place))
        return bool(rows) and orjson.loads(rows[0][0])["error_class"] in LIMIT_NAMES

    async def _continue(self, session: "Session") -> None:
        runtime = self.agent_runtime.runtime
        if self._wanted.mode is not None:
            await runtime.mode_switch.switch(session.id, self._wanted.mode, who=self.person)
        if self._wanted.model is not None:
            await runtime.sessions.choose_model(session.id, self._wanted.model, who=self.person)
        self._local_session = self.talk_in(session.id)

    def talk_in(self, session_id: str) -> "LocalSession":
        from interlock.channels.terminal.local_session import LocalSession
        from interlock.wiring.agents import new_worker_name

        agent_runtime, runtime = self.agent_runtime, self.agent_runtime.runtime
        return LocalSession(
            session_id,
            person=self.person,
            holder=new_worker_name(),
            show=self._show,
            tasks=agent_runtime.tasks,
            questions=runtime.questions,
            leases=runtime.leases,
            hub=agent_runtime.hub,
            bus=runtime.bus,
            work=agent_runtime.session_runner(),
        )


@asynccontextmanager
async def open_chat_client(
    wanted: ChatOptions, show: "ShowEvent", *, is_one_task: bool = False, usual_log_level: str | None = None
) -> AsyncIterator[CommandLineSession]:
    """Open a client. With `is_one_task`, questions and slash commands are unavailable."""
    from interlock.policy.verdict import ModeSwitchMethod
    from interlock.sessions.models import EXEC
    from interlock.wiring.agents import open_agent_runtime

    opened = [wanted.mode] if wanted.mode else []
    async with open_cli_runtime(
        opened=opened,
        roots=wanted.roots,
        sandboxed=True,
        is_checked=True,
        usual_log_level=usual_log_level,
    ) as runtime:
        way = ModeSwitchMethod.command if is_one_task else ModeSwitchMethod.terminal
        agent_runtime = open_agent_runtime(runtime, someone_can_answer=not is_one_task, way=way)
        command_line_session = CommandLineSession(
            agent_runtime, wanted, show, EXEC if is_one_task else "cli"
        )
        # Publish deltas, so that a page following this session shows text as it arrives.
        listening = asyncio.create_task(runtime.bus.run())
        try:
            # Where only the command line is used, it also writes the checkpoints.
            async with runtime.checkpointing():
                await command_line_session.check()
                yield command_line_session
        finally:
            listening.cancel()
            await asyncio.wait({listening})
            await agent_runtime.close()


def event_json(event: "AgentEvent") -> dict[str, object]:
    """The event as JSON: its name in snake case, and its fields."""
    name = "".join(f"_{c.lower()}" if c.isupper() else c for c in type(event).__name__).lstrip("_")
    return {"type": name.removesuffix("_info"), **asdict(event)}
