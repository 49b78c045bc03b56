"""What an Authority follows from, beside the registry: mode, policies, machine and limits."""

from dataclasses import replace
from pathlib import Path

from interlock.config.modes import ToolMode
from interlock.gates.policy import NO_RESTRICTION, ToolPolicy
from interlock.gates.verdict import Layer, SwitchWay
from interlock.infra.records import dataclass


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What works on this machine. A need that nobody vouched for is missing."""

    present: frozenset[str] = frozenset()
    # What a task brings along or does not, whatever the machine has.
    of_tasks: frozenset[str] = frozenset()
    missing_reasons: tuple[tuple[str, str], ...] = ()
    roots: tuple[Path, ...] = ()
    protected_names: tuple[str, ...] = ()
    reads_hard_links: bool = False
    readable_paths: tuple[Path, ...] = ()
    denied_commands: tuple[str, ...] = ()
    sandbox: str = "none"

    def why_missing(self, need: str) -> str | None:
        if need in self.present:
            return None
        return dict(self.missing_reasons).get(need, f"{need} is not available")

    def offering(self, needs: frozenset[str]) -> "Capabilities":
        return replace(self, present=self.present | needs) if needs else self

    def without(self, need: str, reason: str) -> "Capabilities":
        return replace(
            self,
            present=self.present - {need},
            missing_reasons=(*self.missing_reasons, (need, reason)),
        )


@dataclass(frozen=True, slots=True)
class CallLimits:
    """The operator's limits on showing and waiting, beneath the policy's byte limits."""

    timeout_seconds: float = 30.0
    max_timeout_seconds: float = 600.0
    max_output_lines: int = 2000
    max_output_bytes: int = 51_200


@dataclass(frozen=True, slots=True)
class Switching:
    """How the person who reads a refusal can switch the mode, and to which modes without a new start."""

    way: SwitchWay = SwitchWay.fixed
    modes: frozenset[ToolMode] = frozenset()


NO_SWITCHING = Switching()


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything an Authority follows from, beside the registry. Hashable: it is its own cache key."""

    mode: ToolMode
    open_modes: frozenset[ToolMode] = frozenset({ToolMode.chat_safe})
    environment: ToolPolicy = NO_RESTRICTION
    settings: ToolPolicy = NO_RESTRICTION
    agent: ToolPolicy = NO_RESTRICTION
    node: ToolPolicy = NO_RESTRICTION
    capabilities: Capabilities = Capabilities()
    limits: CallLimits = CallLimits()
    # It decides nothing: only what a refusal suggests follows from it.
    switching: Switching = NO_SWITCHING

    def __post_init__(self) -> None:
        if not isinstance(self.mode, ToolMode):
            raise TypeError(f"{self.mode!r} is not a ToolMode")

    @property
    def policies(self) -> tuple[tuple[Layer, ToolPolicy], ...]:
        return (
            (Layer.environment, self.environment),
            (Layer.settings, self.settings),
            (Layer.agent, self.agent),
            (Layer.node, self.node),
        )
