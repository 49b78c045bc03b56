"""Delegated permissions: the mode and policies of a step of a run, or of a task within a task.

The ceiling is the system's policy in the mode that a person chose. A step may do more than the step before
it, because a person wrote the graph, and never more than the ceiling. A task that a model delegates may do
at most what that model may do itself: else delegating to another agent would evade every agent's policy.
"""

from dataclasses import dataclass

from interlock.config.modes import ToolMode, stricter
from interlock.policy.authority import Authority
from interlock.policy.policy_fields import ToolPolicy


@dataclass(frozen=True, slots=True)
class DelegatedAuthority:
    """The part of `AuthorityInputs` that is not the system's own."""

    mode: ToolMode
    agent: ToolPolicy
    node: ToolPolicy


def step_mode(ceiling: ToolMode, wanted: ToolMode | None) -> ToolMode:
    """A step may request a stricter mode than the run's, and no other."""
    return ceiling if wanted is None else stricter(wanted, ceiling)


def modes_open_to_step(
    open_modes: frozenset[ToolMode], ceiling: ToolMode, mode: ToolMode
) -> frozenset[ToolMode]:
    """If the run's mode is open, its steps may be in a stricter one: this opens nothing.

    All stricter modes, since the step's own may be switched while it runs.
    """
    is_below = ceiling in open_modes and stricter(mode, ceiling) is mode
    below = {each for each in ToolMode if stricter(each, ceiling) is each}
    return open_modes | below if is_below else open_modes


def child_policy(parent: Authority, agent: ToolPolicy) -> DelegatedAuthority:
    """`parent` is the Authority that judged the delegating call."""
    return DelegatedAuthority(parent.mode, agent, parent.policy)
