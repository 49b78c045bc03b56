"""Whether a policy allows a tool's network access.

A process that serves all callers has the same ports for each, so a policy that closes one of them closes
the tool.
"""

from interlock.policy.policy_fields import ShellPolicy
from interlock.tools.tool import BaseTool

MAX_TOLD = 5


def network_denial_reason(tool: BaseTool, policy: ShellPolicy) -> tuple[str, str] | None:
    """The reason, and the path of the policy field that denies it; None if it is allowed."""
    external = tool.external
    if external is None:
        return None
    if external.uses_network and policy.network is False:
        return "the network is switched off", "shell.network"
    closed = external.network_ports - policy.ports if policy.ports is not None else frozenset()
    if not closed:
        return None
    told = ", ".join(str(port) for port in sorted(closed)[:MAX_TOLD])
    return f"what it runs connects to ports that are closed here ({told})", "shell.ports"
