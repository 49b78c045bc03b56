"""Tool policies and their one merge: the stricter always wins.

An unset field restricts nothing: it is the top element of the merge and stays unset in it. So the merge is
a meet (associative, commutative, idempotent), and no sequence of layers can widen anything.
"""

from collections.abc import Iterable
from functools import reduce
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field

DEFAULT_MAX_READ_BYTES = 524_288
DEFAULT_MAX_WRITE_BYTES = 2_097_152
DEFAULT_MAX_IMAGE_BYTES = 16_777_216

ByteLimit = Annotated[int, Field(gt=0, le=2**40, strict=True)]
# An image is held in memory while it is viewed.
ImageBytes = Annotated[int, Field(gt=0, le=2**26, strict=True)]
Seconds = Annotated[float, Field(gt=0, le=86_400, strict=True)]
Switch = Annotated[bool, Field(strict=True)]
Port = Annotated[int, Field(gt=0, lt=65_536, strict=True)]
Item = TypeVar("Item")
Number = TypeVar("Number", int, float)


class PolicyPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FsPolicy(PolicyPart):
    """The file tools. With these off, tools that search or run commands are off as well."""

    enabled: Switch | None = None
    max_read_bytes: ByteLimit | None = None
    max_write_bytes: ByteLimit | None = None


class ShellPolicy(PolicyPart):
    enabled: Switch | None = None
    network: Switch | None = None
    ports: frozenset[Port] | None = None


class McpPolicy(PolicyPart):
    enabled: Switch | None = None
    allowed_servers: frozenset[str] | None = None


class MemoryPolicy(PolicyPart):
    enabled: Switch | None = None


class ImagePolicy(PolicyPart):
    enabled: Switch | None = None
    max_bytes: ImageBytes | None = None


class ToolPolicy(PolicyPart):
    """One layer's restrictions."""

    fs: FsPolicy = FsPolicy()
    shell: ShellPolicy = ShellPolicy()
    mcp: McpPolicy = McpPolicy()
    memory: MemoryPolicy = MemoryPolicy()
    image: ImagePolicy = ImagePolicy()
    max_timeout_seconds: Seconds | None = None
    denied_tools: frozenset[str] = frozenset()

    def denies(self, names: Iterable[str]) -> bool:
        """Whether any of a tool's names is listed, ignoring case: a denied Bash also denies bash."""
        denied = {name.casefold() for name in self.denied_tools}
        return any(name.casefold() in denied for name in names)


NO_RESTRICTION = ToolPolicy()


def merge_tool_policies(*layers: ToolPolicy) -> ToolPolicy:
    return reduce(_meet, layers, NO_RESTRICTION)


def _meet(a: ToolPolicy, b: ToolPolicy) -> ToolPolicy:
    return ToolPolicy(
        fs=FsPolicy(
            enabled=_both(a.fs.enabled, b.fs.enabled),
            max_read_bytes=_least(a.fs.max_read_bytes, b.fs.max_read_bytes),
            max_write_bytes=_least(a.fs.max_write_bytes, b.fs.max_write_bytes),
        ),
        shell=ShellPolicy(
            enabled=_both(a.shell.enabled, b.shell.enabled),
            network=_both(a.shell.network, b.shell.network),
            ports=_common(a.shell.ports, b.shell.ports),
        ),
        mcp=meet_mcp(a.mcp, b.mcp),
        memory=MemoryPolicy(enabled=_both(a.memory.enabled, b.memory.enabled)),
        image=ImagePolicy(
            enabled=_both(a.image.enabled, b.image.enabled),
            max_bytes=_least(a.image.max_bytes, b.image.max_bytes),
        ),
        max_timeout_seconds=_least(a.max_timeout_seconds, b.max_timeout_seconds),
        denied_tools=a.denied_tools | b.denied_tools,
    )


def meet_mcp(a: McpPolicy, b: McpPolicy) -> McpPolicy:
    return McpPolicy(
        enabled=_both(a.enabled, b.enabled),
        allowed_servers=_common(a.allowed_servers, b.allowed_servers),
    )


def _both(a: bool | None, b: bool | None) -> bool | None:  # noqa: FBT001 - the two sides of a meet
    if a is None or b is None:
        return b if a is None else a
    return a and b


def _least(a: Number | None, b: Number | None) -> Number | None:
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)


def _common(a: frozenset[Item] | None, b: frozenset[Item] | None) -> frozenset[Item] | None:
    if a is None or b is None:
        return b if a is None else a
    return a & b
