"""Views of the present permissions, for people: the matrix, and the judgement of one call."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from interlock.config.modes import ToolMode
from interlock.gates.explain import Authorities, explain_call, matrix_json
from interlock.policy.authority import Authority, compile_authority
from interlock.policy.authority_inputs import ModeSwitching
from interlock.policy.policy_fields import NO_RESTRICTION, ToolPolicy
from interlock.policy.verdict import ModeSwitchMethod
from interlock.sessions.runtime_settings import StoredSettings
from interlock.wiring.authority_inputs import AT_WORK
from interlock.wiring.runtime import Runtime


async def matrix(
    runtime: Runtime, *, agent: ToolPolicy = NO_RESTRICTION, settings: StoredSettings | None = None
) -> dict[str, Any]:
    """Every tool in every mode; with `settings`, as if these were the stored ones."""
    real, opened = await authorities_by_mode(runtime, agent=agent, settings=settings)
    return matrix_json(runtime.registry, real, opened, runtime.authority_inputs.open_modes)


async def authorities_by_mode(
    runtime: Runtime, *, agent: ToolPolicy = NO_RESTRICTION, settings: StoredSettings | None = None
) -> tuple[Authorities, Authorities]:
    """For each mode the present Authority, and the one if all modes were open."""
    open_modes = runtime.authority_inputs.open_modes
    real, opened = {}, {}
    for mode in ToolMode:
        real[mode] = await _authority(runtime, mode, open_modes, agent, settings)
        opened[mode] = await _authority(runtime, mode, frozenset(ToolMode), agent, settings)
    return real, opened


async def explain(
    runtime: Runtime,
    tool: str,
    mode: ToolMode,
    args: str | Mapping[str, Any] | None = None,
    *,
    agent: ToolPolicy = NO_RESTRICTION,
    session_id: str = "",
    way: ModeSwitchMethod,
) -> dict[str, Any]:
    """The judgement of one call that does not run, redacted. `way` is how the reader can switch modes."""
    switching = ModeSwitching(way, runtime.authority_inputs.open_modes)
    authority = await runtime.authority(mode, agent=agent, offered=AT_WORK, switching=switching)
    told = await explain_call(runtime.registry, authority, tool, args, session_id=session_id)
    safe: dict[str, Any] = runtime.redactor.value(told)
    return safe


async def _authority(
    runtime: Runtime,
    mode: ToolMode,
    open_modes: frozenset[ToolMode],
    agent: ToolPolicy,
    settings: StoredSettings | None,
) -> Authority:
    if settings is None:
        return await runtime.authority(mode, agent=agent, open_modes=open_modes, offered=AT_WORK)
    await runtime.mcp.refresh()
    # A preview takes no place in the cache from Authorities that judge calls.
    authority_inputs = replace(
        runtime.authority_inputs,
        mode=mode,
        open_modes=open_modes,
        settings=settings.tools,
        agent=agent,
        capabilities=runtime.authority_inputs.capabilities.offering(AT_WORK),
    )
    return compile_authority(runtime.registry, authority_inputs)
