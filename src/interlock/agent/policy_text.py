"""The merged tool policy as text for the model, field by field, as it is enforced here."""

from collections.abc import Iterable
from typing import Any

from interlock.core.text import escape_control_characters
from interlock.policy.authority import Authority
from interlock.policy.policy_fields import FIELDS, values_of

_HEAD = "ToolPolicy (all layers merged; every call is checked against exactly this and the mode):"


def render_policy(authority: Authority) -> str:
    """One line per field, in fixed order, then the operator's limits of the output."""
    values = values_of(authority.policy) | _enforced(authority)
    lines = [f"{field.prompt_name}: {_text(values[path])}" for path, field in FIELDS.items()]
    lines.append(f"maxOutputLines: {authority.limits.max_output_lines}")
    lines.append(f"maxOutputBytes: {authority.limits.max_output_bytes}")
    return "\n".join([_HEAD, *lines])


def _enforced(authority: Authority) -> dict[str, Any]:
    """The fields that others, the mode or the operator's limits close further than the policy says."""
    policy, limits = authority.policy, authority.limits
    fs = policy.fs.enabled is not False
    # Commands can do whatever the file tools can, and an image becomes a file.
    shell, image = (fs and part.enabled is not False for part in (policy.shell, policy.image))
    # The sandbox's own ports: none if the mode has no network.
    ports = authority.profile.network_ports if shell else frozenset()
    return {
        "shell.enabled": shell,
        "shell.network": bool(ports),
        "shell.ports": ports,
        "image.enabled": image,
        "image.max_bytes": limits.max_image_bytes,
        "max_timeout_seconds": limits.max_timeout_seconds,
    }


def _text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case frozenset():
            return _list(map(str, sorted(value)))
        case _:
            return str(value).removesuffix(".0")


def _list(items: Iterable[str]) -> str:
    return f"[{', '.join(escape_control_characters(item) for item in items)}]"
