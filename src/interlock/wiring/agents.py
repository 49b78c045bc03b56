"""Builds what runs tasks on a runtime: agents, models, task services and workers."""

import os
import secrets
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from interlock.agent.budget import PriceTable
from interlock.agent.circuit_breaker import CircuitBreakers
from interlock.agent.definitions import AgentDirectory
from interlock.agent.loop import AgentLoop, AgentServices
from interlock.agent.prompt_builder import PromptBuilder
from interlock.agent.resume import describe_unanswered_calls
from interlock.agent.workspace_files import WorkspaceFiles
from interlock.db.driver import DbConnection
from interlock.feed.follow import FeedHub
from interlock.feed.frames import FeedItem
from interlock.models.configured_models import ConfiguredModels
from interlock.models.provider_factory import DEMO
from interlock.policy.verdict import ModeSwitchMethod
from interlock.runtime.agent_handler import AgentHandler
from interlock.runtime.approved_plans import PlanService
from interlock.runtime.live_stream import LiveStream
from interlock.runtime.session_runner import SessionRunner
from interlock.runtime.task_rows import Task
from interlock.runtime.tasks import TaskService
from interlock.runtime.work_queue import WorkQueue
from interlock.runtime.worker import Worker, WorkerLimits
from interlock.runtime.workflow_runs import WorkflowRunService, next_step_after
from interlock.wiring.prompt_inputs import PromptInputsResolver
from interlock.wiring.runtime import Runtime
from interlock.wiring.tool_services import tool_names
from interlock.workflow.directory import WorkflowDirectory


@dataclass(frozen=True, slots=True)
class AgentRuntime:
    """Close it before its runtime."""

    runtime: Runtime
    agents: AgentDirectory
    models: ConfiguredModels
    prompts: PromptBuilder
    loop: AgentLoop
    tasks: TaskService
    live: LiveStream
    # The feed of terminals and chats.
    hub: FeedHub[FeedItem]
    backlog: WorkQueue
    runs: WorkflowRunService
    plans: PlanService

    def worker(self, *, spawned: str | None = None) -> Worker:
        """A worker for all sessions; `spawned` is the id of its `worker.spawned` event, if supervised."""
        runtime, given = self.runtime, self.runtime.settings.worker
        return Worker(
            new_worker_name(),
            AgentHandler(self.loop, self.live, self.runtime.sessions, self.tasks),
            log=runtime.log,
            tasks=self.tasks,
            backlog=self.backlog,
            bus=runtime.bus,
            leases=runtime.leases,
            limits=WorkerLimits(
                sessions=given.sessions,
                poll_seconds=given.poll_seconds,
                cancel_grace_seconds=given.cancel_grace_seconds,
                stop_grace_seconds=given.stop_grace_seconds,
            ),
            spawned=spawned,
        )

    def session_runner(self) -> SessionRunner:
        """Works on a single session that the caller holds."""
        given = self.runtime.settings.worker
        return SessionRunner(
            AgentHandler(self.loop, self.live, self.runtime.sessions, self.tasks),
            log=self.runtime.log,
            tasks=self.tasks,
            backlog=self.backlog,
            cancel_grace_seconds=given.cancel_grace_seconds,
            stop_grace_seconds=given.stop_grace_seconds,
        )

    async def close(self) -> None:
        await self.models.close()


def open_agent_runtime(
    runtime: Runtime, *, someone_can_answer: bool = True, way: ModeSwitchMethod | None = None
) -> AgentRuntime:
    """`someone_can_answer`: whether questions of the agents here reach a person.

    `way` is how the users of this process switch a session's mode; None if users are on other processes.
    """
    settings = runtime.settings
    agents = AgentDirectory(settings.workspace_dir / "agents", tool_names(runtime.registry))
    models = ConfiguredModels(settings)
    redact = runtime.redactor.text
    circumstances = PromptInputsResolver(
        runtime, agents, models, someone_can_answer=someone_can_answer, way=way
    )
    prompts = PromptBuilder(
        circumstances,
        WorkspaceFiles(settings.workspace_dir, redact),
        redact,
        lambda: datetime.now(UTC),
    )
    services = _agent_services(runtime, prompts, models)
    runtime.delegation.open(circumstances.children(services))
    loop = AgentLoop(services)
    tasks = TaskService(
        *(
            runtime.database,
            runtime.log,
            runtime.redactor,
            runtime.sessions,
            runtime.questions,
            runtime.bus,
        ),
        queue_limit=settings.session.queue_limit,
        leftovers=_leftovers,
        follow=next_step_after,
    )
    live = LiveStream(runtime.bus)
    return AgentRuntime(
        *(
            runtime,
            agents,
            models,
            prompts,
            loop,
            tasks,
            live,
            FeedHub(runtime.database, runtime.bus, live, lambda _session_id, item: item),
            WorkQueue(runtime.database, runtime.leases.is_gone),
        ),
        open_run_service(runtime, agents, tasks),
        _plans(runtime, tasks),
    )


def _agent_services(runtime: Runtime, prompts: PromptBuilder, models: ConfiguredModels) -> AgentServices:
    settings = runtime.settings
    return AgentServices(
        database=runtime.database,
        sessions=runtime.sessions,
        log=runtime.log,
        runner=runtime.runner,
        prompts=prompts,
        redactor=runtime.redactor,
        provider_of=models.open,
        fallbacks_of=models.fallbacks,
        breakers=CircuitBreakers(settings.control),
        limits=settings.control,
        prices=PriceTable.of(settings.control.prices, free=(DEMO,)),
        context_tokens=settings.context_tokens,
        tool_choice=settings.tool_choice,
        writes_summaries=settings.compaction == "model",
    )


def _plans(runtime: Runtime, tasks: TaskService) -> PlanService:
    return PlanService(
        *(runtime.questions, runtime.mode_switch, tasks, runtime.sessions, runtime.log, runtime.bus)
    )


def open_workflow_directory(
    workspace: Path, tools: Collection[str], agents: AgentDirectory
) -> WorkflowDirectory:
    def usable() -> Mapping[str, str]:
        return {agent.name: agent.sha256 for agent in agents.survey().agents}

    return WorkflowDirectory(workspace / "workflows", tools, usable)


def open_run_service(runtime: Runtime, agents: AgentDirectory, tasks: TaskService) -> WorkflowRunService:
    return WorkflowRunService(
        *(runtime.runs, tasks, runtime.sessions, runtime.log, runtime.redactor, runtime.bus),
        open_workflow_directory(runtime.settings.workspace_dir, tool_names(runtime.registry), agents),
    )


def _leftovers(connection: DbConnection, task: Task) -> Sequence[tuple[str, str]]:
    return describe_unanswered_calls(
        connection, task.session_id, task.message_seq, task.id, task.mode.value
    )


def new_worker_name() -> str:
    """A unique name: leases and events identify a worker by it."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
