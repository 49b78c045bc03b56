"""The inputs of an Authority beside the registry: mode, policies, machine and limits."""

from dataclasses import dataclass, replace
from pathlib import Path

from interlock.config.modes import ToolMode
from interlock.policy.policy_fields import NO_RESTRICTION, ToolPolicy
from interlock.policy.verdict import ModeSwitchMethod, PolicyLayer


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What works on this machine. A need that is not listed is missing."""

    present: frozenset[str] = frozenset()
    # Needs that depend on the task, not on the machine.
    of_tasks: frozenset[str] = frozenset()
    missing_reasons: tuple[tuple[str, str], ...] = ()
    roots: tuple[Path, ...] = ()
    protected_names: tuple[str, ...] = ()
    reads_hard_links: bool = False
    readable_paths: tuple[Path, ...] = ()
    denied_commands: tuple[str, ...] = ()
    command_rules: tuple[tuple[str, str], ...] = ()
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
    """The operator's limits on output and time, beside the policy's byte limits."""

    timeout_seconds: float = 30.0
    max_timeout_seconds: float = 600.0
    max_output_lines: int = 2000
    max_output_bytes: int = 51_200


@dataclass(frozen=True, slots=True)
class ModeSwitching:
    """How the reader of a refusal can switch the mode, and to which modes without a restart."""

    way: ModeSwitchMethod = ModeSwitchMethod.fixed
    modes: frozenset[ToolMode] = frozenset()


NO_SWITCHING = ModeSwitching()


@dataclass(frozen=True, slots=True)
class AuthorityInputs:
    """Everything an Authority follows from, beside the registry. Hashable: it is its own cache key."""

    mode: ToolMode
    open_modes: frozenset[ToolMode] = frozenset({ToolMode.chat_safe})
    environment: ToolPolicy = NO_RESTRICTION
    settings: ToolPolicy = NO_RESTRICTION
    agent: ToolPolicy = NO_RESTRICTION
    node: ToolPolicy = NO_RESTRICTION
    capabilities: Capabilities = Capabilities()
    limits: CallLimits = CallLimits()
    # It decides nothing: it only affects what a refusal suggests.
    switching: ModeSwitching = NO_SWITCHING

    def __post_init__(self) -> None:
        if not isinstance(self.mode, ToolMode):
            raise TypeError(f"{self.mode!r} is not a ToolMode")

    @property
    def policies(self) -> tuple[tuple[PolicyLayer, ToolPolicy], ...]:
        return (
            (PolicyLayer.environment, self.environment),
            (PolicyLayer.settings, self.settings),
            (PolicyLayer.agent, self.agent),
            (PolicyLayer.node, self.node),
        )
