"""Explains permissions to people: every tool in every mode, and why one call would be refused.

The command line and the gateway show the same answers, read from the same Authorities that judge calls.
"""

from collections.abc import Collection, Mapping
from typing import Any

from interlock.config.modes import ToolMode
from interlock.gates.gate import CallContext, Refusal, ToolCall, judge
from interlock.policy.authority import Authority
from interlock.policy.verdict import LAYER_NAMES, AllowedTool, DeniedTool, PolicyLayer, Verdict
from interlock.tools.registry import ToolRegistry
from interlock.tools.tool import BaseTool

Authorities = Mapping[ToolMode, Authority]


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
    judged = await judge(call, authority, registry, CallContext(session_id))
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
