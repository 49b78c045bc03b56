"""What is handed on: under which mode and policies a step of a run, or a task within a task, is judged.

The ceiling is the system's policy in the mode that a person chose. A step may do more than the step before
it, because a person wrote the graph, and never more than the ceiling. A task that a model hands over may
do at most what that model may do itself: else every agent's policy would end where it names another agent.
"""

from dataclasses import dataclass

from interlock.config.modes import ToolMode, stricter
from interlock.policy.authority import Authority
from interlock.policy.policy import ToolPolicy


@dataclass(frozen=True, slots=True)
class DelegatedAuthority:
    """The part of a `AuthorityInputs` that is not the system's own."""

    mode: ToolMode
    agent: ToolPolicy
    node: ToolPolicy


def step_mode(ceiling: ToolMode, wanted: ToolMode | None) -> ToolMode:
    """A step may ask for a stricter mode than the run's, and not for another one."""
    return ceiling if wanted is None else stricter(wanted, ceiling)


def modes_open_to_step(
    open_modes: frozenset[ToolMode], ceiling: ToolMode, mode: ToolMode
) -> frozenset[ToolMode]:
    """Where the run's mode is open, a step of it may be in a stricter one: nothing is opened by that.

    In any of them: the step's own may be switched while it runs.
    """
    is_below = ceiling in open_modes and stricter(mode, ceiling) is mode
    below = {each for each in ToolMode if stricter(each, ceiling) is each}
    return open_modes | below if is_below else open_modes


def child_policy(parent: Authority, agent: ToolPolicy) -> DelegatedAuthority:
    """`parent` is what the call was judged by that handed the task over."""
    return DelegatedAuthority(parent.mode, agent, parent.policy)
