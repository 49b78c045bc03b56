"""The services that methods use. `wiring/gateway.py` builds them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from interlock.agent.definitions import AgentDirectory
from interlock.config.modes import ToolMode
from interlock.core.threads import DaemonThreadPool
from interlock.db.database import Database
from interlock.feed.follow import FeedHub
from interlock.gates.mcp_administration import McpAdministration
from interlock.gateway.protocol import Frame
from interlock.gateway.session_watch import SessionWatch
from interlock.log.usage import CostOf
from interlock.log.verify.event_log import VerificationReport
from interlock.log.writer import EventLog
from interlock.models.configured_models import ConfiguredModels
from interlock.policy.policy_fields import ToolPolicy
from interlock.questions.service import QuestionService
from interlock.redaction.redactor import Redactor
from interlock.runtime.approved_plans import PlanService
from interlock.runtime.tasks import TaskService
from interlock.runtime.workflow_runs import WorkflowRunService
from interlock.sessions.manager import SessionManager
from interlock.sessions.mode_switch import ModeSwitch
from interlock.sessions.runtime_settings import SettingsStore, StoredSettings

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Facts that do not change while the process runs."""

    version: str
    open_modes: frozenset[ToolMode]
    sandbox: Mapping[str, Any]
    roots: tuple[str, ...]
    retention_days: float | None
    # The operator's own layer, which the stored settings can only tighten.
    ceiling: ToolPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayServices:
    about: ServerInfo
    database: Database
    log: EventLog
    redactor: Redactor
    hub: FeedHub[Frame]
    watch: SessionWatch
    sessions: SessionManager
    mode_switch: ModeSwitch
    stored_settings: SettingsStore
    questions: QuestionService
    tasks: TaskService
    plans: PlanService
    runs: WorkflowRunService
    agents: AgentDirectory
    models: ConfiguredModels
    # The matrix under an agent's policy, and under settings not stored yet.
    matrix: Callable[[ToolPolicy, StoredSettings | None], Awaitable[Json]]
    # Arguments: tool, mode, arguments as JSON text, an agent's policy, and the session whose reads count.
    explain: Callable[[str, ToolMode, str | None, ToolPolicy, str], Awaitable[Json]]
    # Undo a task's changes to files, or the undo of the given id; the last argument is the actor.
    undo: Callable[[str, str | None, str], Awaitable[Json]]
    mcp: McpAdministration
    cost_of: CostOf
    # Checks the log, and every row against it.
    verify: Callable[[], Awaitable[VerificationReport]]
    verifying: asyncio.Lock = field(default_factory=asyncio.Lock)
    threads: DaemonThreadPool = field(default_factory=lambda: DaemonThreadPool("interlock-gateway"))
