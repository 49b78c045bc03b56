"""Who works with a runtime: agents and their models, tasks and whoever takes them up."""

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from interlock.agent.agent import AgentLoop, AgentServices
from interlock.agent.breaker import Breakers
from interlock.agent.budget import PriceTable
from interlock.agent.limits import ControlLimits
from interlock.agent.past import leftovers
from interlock.agent.personas import AgentFolder
from interlock.agent.prompt_builder import PromptBuilder
from interlock.agent.workspace import WorkspaceFiles
from interlock.events.catalog import SYSTEM_STREAM
from interlock.gates.verdict import SwitchWay
from interlock.infra.records import dataclass
from interlock.models.choose import DEMO
from interlock.models.roster import ModelRoster
from interlock.store.driver import Connection
from interlock.wiring.circumstances import Circumstances
from interlock.wiring.registry import tool_names
from interlock.wiring.runtime import Runtime
from interlock.worker.agent_handler import AgentHandler
from interlock.worker.building import PlanDesk
from interlock.worker.live import Live
from interlock.worker.queue import Backlog
from interlock.worker.rows import Task
from interlock.worker.runs import RunDesk, follow
from interlock.worker.session_work import SessionWork
from interlock.worker.tasks import TaskDesk
from interlock.worker.wire import Grown, Ring, Signal, Stir
from interlock.worker.worker import Worker, WorkerLimits
from interlock.workflow.folder import WorkflowFolder


@dataclass(frozen=True, slots=True)
class Office:
    """Close it before its runtime."""

    runtime: Runtime
    agents: AgentFolder
    models: ModelRoster
    prompts: PromptBuilder
    loop: AgentLoop
    tasks: TaskDesk
    live: Live
    backlog: Backlog
    runs: RunDesk
    plans: PlanDesk

    def worker(self, *, spawned: str | None = None) -> Worker:
        """One that looks for work in all sessions; `spawned` tells of who started it."""
        runtime, given = self.runtime, self.runtime.settings.worker
        return Worker(
            worker_name(),
            AgentHandler(self.loop, self.live, self.runtime.sessions),
            log=runtime.log,
            tasks=self.tasks,
            backlog=self.backlog,
            bell=runtime.bell,
            leases=runtime.leases,
            limits=WorkerLimits(
                sessions=given.sessions,
                poll_seconds=given.poll_seconds,
                cancel_grace_seconds=given.cancel_grace_seconds,
                stop_grace_seconds=given.stop_grace_seconds,
            ),
            spawned=spawned,
        )

    def session_work(self) -> SessionWork:
        """For whoever holds one session and works on that alone."""
        given = self.runtime.settings.worker
        return SessionWork(
            AgentHandler(self.loop, self.live, self.runtime.sessions),
            log=self.runtime.log,
            tasks=self.tasks,
            backlog=self.backlog,
            cancel_grace_seconds=given.cancel_grace_seconds,
            stop_grace_seconds=given.stop_grace_seconds,
        )

    async def listen(self, has_room: Callable[[], bool] = lambda: False) -> None:
        """Hear what other processes say, and let them hear this one, until it is cancelled."""
        wire, loop = self.runtime.wire, asyncio.get_running_loop()

        def grown(streams: set[str]) -> None:
            # In the writer's thread.
            if wire.has_others:
                loop.call_soon_threadsafe(tell, streams)

        def tell(streams: set[str]) -> None:
            for stream in streams - {SYSTEM_STREAM}:
                wire.send(Grown(stream))

        stop_listening = self.runtime.log.listen(grown)
        try:
            await wire.run(self._hear, has_room)
        finally:
            stop_listening()

    def _hear(self, signal: Signal) -> None:
        if isinstance(signal, Ring | Stir):
            self.runtime.bell.hear(signal)
        else:
            self.live.hear_signal(signal)

    async def close(self) -> None:
        await self.models.close()


def open_office(
    runtime: Runtime, *, someone_can_answer: bool = True, way: SwitchWay | None = None
) -> Office:
    """`someone_can_answer`: whether questions of the agents here reach a person.

    `way` is how people who talk with this process switch a session's mode; None: they talk with others.
    """
    settings = runtime.settings
    agents = AgentFolder(settings.workspace_dir / "agents", tool_names(runtime.registry))
    models = ModelRoster(settings)
    redact = runtime.redactor.text
    circumstances = Circumstances(runtime, agents, models, someone_can_answer=someone_can_answer, way=way)
    prompts = PromptBuilder(
        circumstances,
        WorkspaceFiles(settings.workspace_dir, redact),
        redact,
        lambda: datetime.now(UTC),
    )
    services = _agent_services(runtime, prompts, models)
    runtime.delegation.open(circumstances.children(services))
    loop = AgentLoop(services)
    tasks = TaskDesk(
        *(
            runtime.database,
            runtime.log,
            runtime.redactor,
            runtime.sessions,
            runtime.questions,
            runtime.bell,
        ),
        queue_limit=settings.session.queue_limit,
        leftovers=_leftovers,
        follow=follow,
    )
    live = Live(runtime.wire)
    return Office(
        *(
            runtime,
            agents,
            models,
            prompts,
            loop,
            tasks,
            live,
            Backlog(runtime.database, runtime.leases.is_gone),
        ),
        open_runs(runtime, agents, tasks),
        _plans(runtime, tasks),
    )


def _agent_services(runtime: Runtime, prompts: PromptBuilder, models: ModelRoster) -> AgentServices:
    settings = runtime.settings
    limits = ControlLimits.of(settings.control)
    return AgentServices(
        database=runtime.database,
        sessions=runtime.sessions,
        log=runtime.log,
        runner=runtime.runner,
        prompts=prompts,
        redactor=runtime.redactor,
        provider_of=models.open,
        breakers=Breakers(limits),
        limits=limits,
        prices=PriceTable.of(settings.control.prices, free=(DEMO,)),
        context_tokens=settings.context_tokens,
        tool_choice=settings.tool_choice,
    )


def _plans(runtime: Runtime, tasks: TaskDesk) -> PlanDesk:
    return PlanDesk(
        *(runtime.questions, runtime.mode_switch, tasks, runtime.sessions, runtime.log, runtime.bell)
    )


def workflows_in(workspace: Path, tools: Collection[str], agents: AgentFolder) -> WorkflowFolder:
    def usable() -> Mapping[str, str]:
        return {agent.name: agent.sha256 for agent in agents.survey().agents}

    return WorkflowFolder(workspace / "workflows", tools, usable)


def open_runs(runtime: Runtime, agents: AgentFolder, tasks: TaskDesk) -> RunDesk:
    return RunDesk(
        *(runtime.runs, tasks, runtime.sessions, runtime.log, runtime.redactor, runtime.bell),
        workflows_in(runtime.settings.workspace_dir, tool_names(runtime.registry), agents),
    )


def _leftovers(connection: Connection, task: Task) -> Sequence[tuple[str, str]]:
    return leftovers(connection, task.session_id, task.message_seq, task.id, task.mode.value)


def worker_name() -> str:
    """No two share one: leases and events call a worker by it."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
