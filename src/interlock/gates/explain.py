"""Explains permissions to people: every tool in every mode, and why one call would be refused.

The command line and the gateway show the same answers, read from the same Authorities that judge calls.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from interlock.config.modes import ToolMode
from interlock.gates.gate import Refusal, ToolCall, judge
from interlock.policy.authority import Authority
from interlock.policy.authority_inputs import ModeSwitching
from interlock.policy.policy_fields import NO_RESTRICTION, ToolPolicy
from interlock.policy.verdict import (
    LAYER_NAMES,
    AllowedTool,
    DeniedTool,
    ModeSwitchMethod,
    PolicyLayer,
    Verdict,
)
from interlock.redaction.redactor import Redactor
from interlock.tools.registry import ToolRegistry
from interlock.tools.tool import BaseTool, ToolContext

Authorities = Mapping[ToolMode, Authority]


class PermissionViews:
    """The present permissions for people: the matrix of tools and modes, and the judgement of one call."""

    def __init__(
        self,
        registry: ToolRegistry,
        authority: Callable[..., Awaitable[Authority]],
        open_modes: frozenset[ToolMode],
        redactor: Redactor,
        offered: frozenset[str],
    ) -> None:
        """`authority` compiles the present one of a mode; `offered` is what only running agents have."""
        self._registry = registry
        self._authority = authority
        self._open_modes = open_modes
        self._redactor = redactor
        self._offered = offered

    async def matrix(
        self, *, agent: ToolPolicy = NO_RESTRICTION, settings: ToolPolicy | None = None
    ) -> dict[str, Any]:
        """Every tool in every mode; with `settings`, as if these were the stored ones."""
        real, opened = await self.by_mode(agent=agent, settings=settings)
        return matrix_json(self._registry, real, opened, self._open_modes)

    async def by_mode(
        self, *, agent: ToolPolicy = NO_RESTRICTION, settings: ToolPolicy | None = None
    ) -> tuple[Authorities, Authorities]:
        """For each mode the present Authority, and the one if all modes were open."""
        real, opened = dict[ToolMode, Authority](), dict[ToolMode, Authority]()
        for mode in ToolMode:
            for found, open_modes in ((real, self._open_modes), (opened, frozenset(ToolMode))):
                found[mode] = await self._authority(
                    mode, agent=agent, open_modes=open_modes, offered=self._offered, settings=settings
                )
        return real, opened

    async def explain(
        self,
        tool: str,
        mode: ToolMode,
        args: str | Mapping[str, Any] | None = None,
        *,
        agent: ToolPolicy = NO_RESTRICTION,
        session_id: str = "",
        way: ModeSwitchMethod,
    ) -> dict[str, Any]:
        """The judgement of one call that does not run. `way` is how the reader can switch modes."""
        switching = ModeSwitching(way, self._open_modes)
        authority = await self._authority(mode, agent=agent, offered=self._offered, switching=switching)
        answer = await explain_call(self._registry, authority, tool, args, session_id=session_id)
        safe: dict[str, Any] = self._redactor.value(answer)
        return safe


def matrix_json(
    registry: ToolRegistry, real: Authorities, opened: Authorities, open_modes: Collection[ToolMode]
) -> dict[str, Any]:
    """The present permissions with their digests; for a closed mode also those if it were opened."""
    return {
        "open_modes": sorted(mode.value for mode in open_modes),
        "limits": _limits(real),
        "digests": {mode.value: authority.digest for mode, authority in real.items()},
        "tools": [
            {
                "name": entry.tool.name,
                "group": entry.tool.group.value,
                "effect": entry.tool.effect.value,
                "description": entry.tool.description,
                "modes": {
                    mode.value: _cell(entry.tool, mode, real)
                    | ({} if mode in open_modes else {"if_opened": _cell(entry.tool, mode, opened)})
                    for mode in ToolMode
                },
            }
            for entry in registry
        ],
    }


async def explain_call(
    registry: ToolRegistry,
    authority: Authority,
    tool: str,
    args: str | Mapping[str, Any] | None = None,
    *,
    session_id: str = "",
) -> dict[str, Any]:
    """The judgement of one call, which does not run; without `args`, of the tool alone.

    It may quote the arguments: redact it before it is shown.
    """
    verdict = authority.verdict(tool)
    answer: dict[str, Any] = {
        "tool_name": verdict.tool_name if verdict else tool,
        "mode": authority.mode.value,
        "allowed": True,
        "authority_digest": authority.digest,
    }
    if args is None and isinstance(verdict, AllowedTool):
        return answer
    call = ToolCall("explain", tool, args or "{}")
    judged = await judge(call, authority, registry, ToolContext(session_id))
    return answer | _refused(judged) if isinstance(judged, Refusal) else answer


def next_action_now(denial: Mapping[str, Any], authority: Authority) -> str:
    """The next action for a logged refusal, for the person whom `authority` is for.

    The log has the next action at the time and place of the call.
    """
    verdict = authority.verdict(str(denial.get("tool_name", "")))
    if denial.get("layer") == PolicyLayer.arguments or verdict is None:
        return str(denial.get("next_action", ""))
    if isinstance(verdict, DeniedTool):
        return verdict.next_action
    return f"{verdict.tool_name} is available now: this session is in {authority.mode} mode."


def _refused(refusal: Refusal) -> dict[str, Any]:
    failure = refusal.failure
    return {
        "allowed": False,
        "layer": refusal.layer.value,
        "decided_by": LAYER_NAMES[refusal.layer],
        "error_code": failure.error_code.value,
        "error_class": failure.error_class.value,
        "message": failure.message,
        "next_action": failure.next_action,
    }


def _limits(authorities: Authorities) -> dict[str, int]:
    """The limits on reading, writing and output: the same in every mode."""
    limits = authorities[ToolMode.chat_safe].limits
    names = ("max_read_bytes", "max_write_bytes", "max_output_lines", "max_output_bytes")
    return {name: getattr(limits, name) for name in names}


def _cell(tool: BaseTool, mode: ToolMode, authorities: Authorities) -> dict[str, Any]:
    verdict: Verdict = authorities[mode].verdicts[tool.name]
    if isinstance(verdict, DeniedTool):
        return {
            "allowed": False,
            "error_code": verdict.error_code.value,
            "layer": verdict.layer.value,
            "decided_by": LAYER_NAMES[verdict.layer],
            "message": verdict.message,
        }
    return {"allowed": True}
