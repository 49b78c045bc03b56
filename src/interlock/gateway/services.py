"""What the methods work with. `wiring/serving.py` builds it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from decimal import Decimal
from typing import Any

from interlock.agent.personas import AgentFolder
from interlock.config.modes import ToolMode
from interlock.events.log import EventLog
from interlock.following.hub import Hub
from interlock.gates.policy import ToolPolicy
from interlock.gateway.protocol import Frame
from interlock.infra.records import dataclass
from interlock.infra.threads import WorkThreads
from interlock.models.roster import ModelRoster
from interlock.questions.desk import QuestionDesk
from interlock.redaction.redactor import Redactor
from interlock.session.manager import SessionManager
from interlock.session.mode_switch import ModeSwitch
from interlock.session.settings_store import SettingsStore, StoredSettings
from interlock.store.database import Database
from interlock.worker.building import PlanDesk
from interlock.worker.runs import RunDesk
from interlock.worker.tasks import TaskDesk

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class About:
    """What does not change while the process runs."""

    version: str
    open_modes: frozenset[ToolMode]
    sandbox: Mapping[str, Any]
    roots: tuple[str, ...]
    retention_days: float | None
    # The operator's own layer, which the stored settings can only narrow.
    ceiling: ToolPolicy


@dataclass(frozen=True, slots=True)
class Class:
    """How somebody at a page classes a foreign tool. `hash` is of the definition that they looked at."""

    effect: str
    modes: tuple[str, ...]
    group: str
    hash: str


@dataclass(frozen=True, slots=True)
class ForeignTools:
    """What can be done from afar with MCP servers; the last of what `allow` and `remove` take is who."""

    list: Callable[[], Awaitable[Json]]
    inspect: Callable[[str], Awaitable[Json]]
    allow: Callable[[str, str, Class, str], Awaitable[Json]]
    remove: Callable[[str, str | None, str], Awaitable[Json]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    about: About
    database: Database
    log: EventLog
    redactor: Redactor
    hub: Hub[Frame]
    sessions: SessionManager
    mode_switch: ModeSwitch
    stored_settings: SettingsStore
    questions: QuestionDesk
    tasks: TaskDesk
    plans: PlanDesk
    runs: RunDesk
    agents: AgentFolder
    models: ModelRoster
    # The matrix under an agent's policy, and under settings that are not stored yet.
    matrix: Callable[[ToolPolicy, StoredSettings | None], Awaitable[Json]]
    # Tool, mode, arguments as JSON text, an agent's policy, and the session whose reads count.
    explain: Callable[[str, ToolMode, str | None, ToolPolicy, str], Awaitable[Json]]
    # Takes back what a task did to files, or the undo of that id of it; the last argument is the actor.
    undo: Callable[[str, str | None, str], Awaitable[Json]]
    mcp: ForeignTools
    # What a model's tokens cost, where that is known.
    cost_of: Callable[[str, int, int], Decimal | None]
    verifying: asyncio.Lock = field(default_factory=asyncio.Lock)
    threads: WorkThreads = field(default_factory=lambda: WorkThreads("interlock-gateway"))
