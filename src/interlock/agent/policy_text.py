"""The merged tool policy as text for the model, field by field, as it is enforced here."""

from collections.abc import Iterable

from interlock.core.text import escape_control_characters
from interlock.policy.authority import Authority

_HEAD = "ToolPolicy (all layers merged; every call is checked against exactly this and the mode):"


def render_policy(authority: Authority) -> str:
    """One line per field, in fixed order. A switch that a wider one turns off is shown as off.

    The limits of the output are the operator's; no other layer sets them.
    """
    policy, limits = authority.policy, authority.limits
    fs = policy.fs.enabled is not False
    # Commands can do whatever the file tools can, and an image becomes a file.
    shell, image = (fs and part.enabled is not False for part in (policy.shell, policy.image))
    # The sandbox's own ports: none if the mode has no network.
    ports = sorted(authority.profile.network_ports) if shell else []
    fields = {
        "fs.enabled": _switch(is_on=fs),
        "fs.maxReadBytes": str(limits.max_read_bytes),
        "fs.maxWriteBytes": str(limits.max_write_bytes),
        "shell.enabled": _switch(is_on=shell),
        "shell.network": _switch(is_on=bool(ports)),
        "shell.ports": _list(map(str, ports)),
        "mcp.enabled": _switch(is_on=policy.mcp.enabled is not False),
        "mcp.allowedServers": _list(sorted(policy.mcp.allowed_servers or ())),
        "memory.enabled": _switch(is_on=policy.memory.enabled is not False),
        "image.enabled": _switch(is_on=image),
        "image.maxBytes": str(limits.max_image_bytes),
        "maxOutputLines": str(limits.max_output_lines),
        "maxOutputBytes": str(limits.max_output_bytes),
        "maxTimeoutSeconds": str(limits.max_timeout_seconds).removesuffix(".0"),
        "deniedTools": _list(sorted(policy.denied_tools)),
    }
    return "\n".join([_HEAD, *(f"{name}: {value}" for name, value in fields.items())])


def _switch(*, is_on: bool) -> str:
    return "true" if is_on else "false"


def _list(items: Iterable[str]) -> str:
    return f"[{', '.join(escape_control_characters(item) for item in items)}]"
