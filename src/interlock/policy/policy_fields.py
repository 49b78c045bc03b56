"""The tool policy: every field declared once, with its defaults, its meet, its texts and its editor.

The merge, the digest, the operator's variables, the stored settings, agent and step files, the prompt, the
settings page and docs/settings.md all follow from the declarations of `ToolPolicy`; nothing else lists the
fields. An unset field restricts nothing: it is the top element of the merge and stays unset in it. So the
merge is a meet (associative, commutative, idempotent), and no sequence of layers can widen anything.
"""

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from operator import and_, or_
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict

from interlock.config.modes import Effect, ToolGroup
from interlock.config.settings_group import TOOL_NAME
from interlock.core.text import safe_excerpt
from interlock.policy.verdict import PolicyLayer

DEFAULT_MAX_READ_BYTES = 524_288
DEFAULT_MAX_WRITE_BYTES = 2_097_152
DEFAULT_MAX_IMAGE_BYTES = 16_777_216
DEFAULT_MAX_TIMEOUT_SECONDS = 600.0


class Text(NamedTuple):
    """A text of the page, in each of its languages."""

    en: str
    zh: str


@dataclass(frozen=True, slots=True)
class FieldKind:
    """How values of one kind meet, and which control edits them.

    `unset` restricts nothing. `closed` is the value while the stored settings cannot be read.
    """

    editor: str
    meet: Callable[[Any, Any], Any]
    unset: Any = None
    closed: Any = None
    # The loosest first.
    choices: tuple[tuple[str, Text], ...] = ()


class Variable(NamedTuple):
    """The operator's environment variable for a field."""

    name: str
    default: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """Everything about a field beside its path and its type.

    `default` is its value in the stored settings. `if_unset`, by default the same, holds if no layer up to
    `closes_after` sets it, so that a later layer cannot open it. `hint` may name limits, such as {lines};
    `doc` replaces it in the documentation. `shown_with` names the switch without which the page does not
    show the field.
    """

    label: Text
    hint: Text
    doc: str = ""
    variable: Variable | None = None
    default: Any = None
    if_unset: Any = None
    closes_after: PolicyLayer = PolicyLayer.settings
    set_by: frozenset[PolicyLayer] = frozenset({PolicyLayer.settings, PolicyLayer.agent, PolicyLayer.node})
    shown_with: str = ""


class PolicyPart(BaseModel):
    """A group of fields. `title` and `about` head it on the page."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: ClassVar[Text]
    about: ClassVar[Text]


# -- kinds and types -----------------------------------------------------------------------------------


def _choice(**choices: Text) -> FieldKind:
    order = list(choices)

    def strictest(a: str, b: str) -> str:
        return max(a, b, key=order.index)

    return FieldKind("choice", strictest, closed=order[-1], choices=tuple(choices.items()))


_BYTES = FieldKind("bytes", min)

Switch = Annotated[bool, Strict(), FieldKind("switch", and_, closed=False)]
ByteLimit = Annotated[int, Field(gt=0, le=2**40), Strict(), _BYTES]
# An image is held in memory while it is viewed.
ImageBytes = Annotated[int, Field(gt=0, le=2**26), Strict(), _BYTES]
Seconds = Annotated[float, Field(gt=0, le=86_400), Strict(), FieldKind("seconds", min)]
Port = Annotated[int, Field(gt=0, lt=65_536), Strict()]
Ports = Annotated[frozenset[Port], FieldKind("ports", and_, closed=frozenset())]
Servers = Annotated[frozenset[str], FieldKind("servers", and_, closed=frozenset())]
Decision = Annotated[
    Literal["allow", "ask", "deny"],
    _choice(allow=Text("allow", "允许"), ask=Text("ask", "询问"), deny=Text("deny", "拒绝")),
]

GROUP_PREFIX, EFFECT_PREFIX = "group:", "effect:"
_KINDS_OF_TOOLS = tuple(
    [f"{GROUP_PREFIX}{group}" for group in ToolGroup] + [f"{EFFECT_PREFIX}{effect}" for effect in Effect]
)


def names_kind_of_tools(entry: str) -> bool:
    """Whether an entry of `denied_tools` names a group or an effect instead of a tool."""
    return entry.casefold().startswith((GROUP_PREFIX, EFFECT_PREFIX))


def unknown_tools(denied: Iterable[str], known: Collection[str]) -> list[str]:
    """The denied tools that do not exist in any case; groups and effects were checked when set."""
    exists = {name.casefold() for name in known}
    return sorted(
        name for name in denied if name.casefold() not in exists and not names_kind_of_tools(name)
    )


def _reject_invalid_entries(entries: frozenset[str]) -> frozenset[str]:
    """Refuse an entry that would look like a denial and deny nothing."""
    for entry in sorted(entries):
        shown = safe_excerpt(entry, 64)
        if names_kind_of_tools(entry):
            if entry.casefold() not in _KINDS_OF_TOOLS:
                kind, _, name = entry.casefold().partition(":")
                known = [each.partition(":")[2] for each in _KINDS_OF_TOOLS if each.startswith(kind)]
                near = [f"{kind}:{each}" for each in difflib.get_close_matches(name, known, n=1)]
                valid = ", ".join(f"{kind}:{each}" for each in known)
                hint = f"did you mean {near[0]}?" if near else f"valid: {valid}"
                raise ValueError(f"'{shown}' names no {kind} of tools; {hint}")
        elif not TOOL_NAME.fullmatch(entry):
            raise ValueError(f"'{shown}' is not a valid tool name; separate names with commas")
    return entries


DeniedTools = Annotated[
    frozenset[str],
    AfterValidator(_reject_invalid_entries),
    # Every effect: what was denied before may be a tool that no switch turns off.
    FieldKind(
        "tools", or_, unset=frozenset(), closed=frozenset(f"{EFFECT_PREFIX}{each}" for each in Effect)
    ),
]


# -- the fields ----------------------------------------------------------------------------------------


class FsPolicy(PolicyPart):
    """The file tools. With these off, tools that search or run commands are off as well."""

    title = Text("Files", "文件")
    about = Text(
        "List, find, search, read and change files in the opened folders.",
        "在开放的文件夹内列出、查找、搜索、读取和修改文件。",
    )

    enabled: Annotated[
        Switch | None,
        Declaration(
            default=True,
            variable=Variable("TOOL_FS_ENABLED"),
            label=Text("Enable filesystem tools (fs.*)", "启用文件系统工具（fs.*）"),
            hint=Text(
                "Turning this off stops file access in chat, agent and run sessions, including commands "
                "and searches. The agent can still ask you questions.",
                "关闭后，chat、agent 和 run 会话都无法访问文件，命令与搜索也会停用；智能体仍可向你提问。",
            ),
            doc="File tools, and everything that needs them.",
        ),
    ] = None
    max_read_bytes: Annotated[
        ByteLimit | None,
        Declaration(
            default=DEFAULT_MAX_READ_BYTES,
            variable=Variable("TOOL_MAX_READ_BYTES"),
            label=Text("Max read bytes", "单次读取上限（字节）"),
            hint=Text(
                "Maximum that one call reads from files. A result shows at most {lines} lines and {page}, "
                "set by the operator. With limit_bytes, read_file returns more, up to this limit.",
                "一次调用最多从文件读取的内容。结果最多显示 {lines} 行、{page}（由管理员设定）；"
                "read_file 可用 limit_bytes 返回更多，以此上限为止。",
            ),
            doc="The most of files that a call may read; [tools.md](tools.md#limits) says what it limits "
            "for each tool.",
        ),
    ] = None
    max_write_bytes: Annotated[
        ByteLimit | None,
        Declaration(
            default=DEFAULT_MAX_WRITE_BYTES,
            variable=Variable("TOOL_MAX_WRITE_BYTES"),
            label=Text("Max write bytes", "单次写入上限（字节）"),
            hint=Text("Maximum that one call writes to a file.", "一次调用最多向文件写入的内容。"),
            doc="The most that a call may write.",
        ),
    ] = None


class ShellPolicy(PolicyPart):
    """Commands. `network` and `ports` also apply to servers that Interlock runs in the sandbox."""

    title = Text("Commands", "命令")
    about = Text(
        "Commands run in the sandbox. The mode decides what they can write.",
        "命令在沙箱中运行；能写入哪里由模式决定。",
    )

    enabled: Annotated[
        Switch | None,
        Declaration(
            default=True,
            variable=Variable("TOOL_SHELL_ENABLED"),
            label=Text("Enable commands (bash)", "启用命令（bash）"),
            hint=Text(
                "Turning this off disables bash and bash_readonly.",
                "关闭后，bash 和 bash_readonly 不可用。",
            ),
            doc="Shell tools.",
        ),
    ] = None
    network: Annotated[
        Switch | None,
        Declaration(
            default=True,
            if_unset=False,
            variable=Variable("TOOL_SHELL_NETWORK", default=False),
            label=Text("Allow network access", "允许访问网络"),
            hint=Text(
                "For commands in coding mode, and only to the ports below.",
                "仅限 coding 模式下的命令，且仅限下列端口。",
            ),
            doc="The network for commands. It stays off until the operator sets `TOOL_SHELL_NETWORK=true`.",
        ),
    ] = None
    ports: Annotated[
        Ports | None,
        Declaration(
            if_unset=frozenset(),
            variable=Variable("TOOL_NETWORK_PORTS", default=frozenset({80, 443})),
            label=Text("Ports", "端口"),
            hint=Text(
                "Ports that commands can connect to, separated by commas; none closes all of them.",
                "命令可以连接的端口，用逗号分隔；填“无”则全部关闭。",
            ),
            doc="The ports that commands may reach if they may use the network. A list narrows "
            "`TOOL_NETWORK_PORTS`.",
        ),
    ] = None
    unknown: Annotated[
        Decision | None,
        Declaration(
            default="allow",
            variable=Variable("TOOL_SHELL_UNKNOWN"),
            label=Text("Commands that no rule names", "没有规则提到的命令"),
            hint=Text(
                "Allow runs them in the sandbox, deny refuses them. Ask refuses them too, as long as calls "
                "cannot be approved.",
                "“允许”表示在沙箱中运行，“拒绝”表示不运行；目前还不能审批调用，因此“询问”同样会拒绝。",
            ),
            doc="What happens to a command that no rule names: `allow` runs it in the sandbox, `deny` "
            "refuses it, and `ask` refuses it too, as long as calls cannot be approved.",
        ),
    ] = None


class McpPolicy(PolicyPart):
    title = Text("MCP", "MCP")
    about = Text(
        "Tools that other programs provide over the Model Context Protocol.",
        "其他程序通过 Model Context Protocol 提供的工具。",
    )

    enabled: Annotated[
        Switch | None,
        Declaration(
            default=False,
            if_unset=True,
            variable=Variable("TOOL_MCP_ENABLED"),
            label=Text("Enable MCP tools", "启用 MCP 工具"),
            hint=Text(
                "Turning this off disables the tools of all servers. Servers shows which servers are "
                "allowed.",
                "关闭后，所有服务器的工具都会停用。“服务器”中显示哪些服务器可用。",
            ),
            doc="Tools of [MCP servers](mcp.md).",
        ),
    ] = None
    allowed_servers: Annotated[
        Servers | None,
        Declaration(
            # If the system lists none, the agent's list applies (S4), and if neither does, no server.
            if_unset=frozenset(),
            closes_after=PolicyLayer.agent,
            variable=Variable("TOOL_MCP_SERVERS"),
            shown_with="mcp.enabled",
            label=Text("Allowed MCP servers", "允许的 MCP 服务器"),
            hint=Text(
                "Only servers on this list are allowed. Select a server to add or remove it, or enter its "
                "ID.",
                "只有此列表中的服务器可以使用。点击服务器即可加入或移出，也可以输入其 ID。",
            ),
            doc="A list of MCP servers by id. If neither this nor `TOOL_MCP_SERVERS` is set, only an agent "
            "whose own file lists servers may use those.",
        ),
    ] = None


class MemoryPolicy(PolicyPart):
    title = Text("Memory", "记忆")
    about = Text("Search the notes and add to them.", "搜索笔记和添加笔记。")

    enabled: Annotated[
        Switch | None,
        Declaration(
            default=True,
            variable=Variable("TOOL_MEMORY_ENABLED"),
            label=Text("Enable memory", "启用记忆"),
            hint=Text(
                "Turning this off disables memory_search and memory_append.",
                "关闭后，memory_search 和 memory_append 不可用。",
            ),
            doc="`memory_search` and `memory_append`.",
        ),
    ] = None


class ImagePolicy(PolicyPart):
    title = Text("Images", "图片")
    about = Text("Generate images and save them as files.", "生成图片并保存为文件。")

    enabled: Annotated[
        Switch | None,
        Declaration(
            default=True,
            variable=Variable("TOOL_IMAGE_ENABLED"),
            label=Text("Enable images", "启用图片生成"),
            hint=Text("Turning this off disables generate_image.", "关闭后，generate_image 不可用。"),
            doc="Image tools.",
        ),
    ] = None
    max_bytes: Annotated[
        ImageBytes | None,
        Declaration(
            default=DEFAULT_MAX_IMAGE_BYTES,
            variable=Variable("IMAGE_MAX_BYTES"),
            label=Text("Max image bytes", "图片大小上限（字节）"),
            hint=Text("Maximum size of a saved image.", "可保存的图片的最大大小。"),
            doc="The largest image; at most 67108864. A `tools.fs.max_write_bytes` below its default "
            "applies to images as well.",
        ),
    ] = None


class ToolPolicy(PolicyPart):
    """One layer's restrictions."""

    title = Text("All tools", "所有工具")
    about = Text("Limits for every call.", "适用于每次调用的限制。")

    fs: FsPolicy = FsPolicy()
    shell: ShellPolicy = ShellPolicy()
    mcp: McpPolicy = McpPolicy()
    memory: MemoryPolicy = MemoryPolicy()
    image: ImagePolicy = ImagePolicy()
    max_timeout_seconds: Annotated[
        Seconds | None,
        Declaration(
            if_unset=DEFAULT_MAX_TIMEOUT_SECONDS,
            variable=Variable("TOOL_MAX_TIMEOUT_SECONDS", default=DEFAULT_MAX_TIMEOUT_SECONDS),
            label=Text("Max call time (seconds)", "单次调用最长时间（秒）"),
            hint=Text(
                "A longer call is stopped, together with every process it started.",
                "超时的调用及其启动的所有进程都会被终止。",
            ),
            doc="The upper bound of any time-out, at most 86400.",
        ),
    ] = None
    denied_tools: Annotated[
        DeniedTools,
        Declaration(
            default=frozenset(),
            variable=Variable("TOOL_DENIED", default=frozenset()),
            label=Text("Denied tools", "禁止的工具"),
            hint=Text(
                "Select a tool, a group or an effect to deny it in every mode.",
                "点击工具、分组或效果，即可在所有模式下禁止。",
            ),
            doc="Tools that are off, by name or alias, or all of a group (`group:media`) or with an effect "
            "(`effect:exec`); `interlock policy matrix --json` names the group and the effect of each.",
        ),
    ] = frozenset()

    def denial_of(self, names: Iterable[str], group: ToolGroup, effect: Effect) -> str | None:
        """What denies a tool, in words, if anything listed does. Case is ignored."""
        denied = {entry.casefold() for entry in self.denied_tools}
        if not denied:
            return None
        if not denied.isdisjoint(name.casefold() for name in names):
            return "it is"
        if f"{GROUP_PREFIX}{group}" in denied:
            return f"its group {group} is"
        return f"its effect {effect} is" if f"{EFFECT_PREFIX}{effect}" in denied else None


# -- what is derived from them -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PolicyField:
    """A field by its path, such as `fs.max_read_bytes`. `type` is that of a set value."""

    path: str
    part: type[PolicyPart]
    type: Any
    kind: FieldKind
    declared: Declaration

    @property
    def if_unset(self) -> Any:
        declared = self.declared
        return declared.default if declared.if_unset is None else declared.if_unset

    @property
    def prompt_name(self) -> str:
        """Its name in the prompt, as the specification writes them: `fs.maxReadBytes`."""
        return re.sub("_([a-z])", lambda found: found[1].upper(), self.path)


def _fields(part: type[PolicyPart], prefix: str = "") -> Iterator[PolicyField]:
    for name, info in part.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, PolicyPart):
            yield from _fields(info.annotation, f"{prefix}{name}.")
            continue
        [declared] = [each for each in info.metadata if isinstance(each, Declaration)]
        # A field that cannot be unset (a list that is empty instead) has its metadata on itself.
        options = [each for each in get_args(info.annotation) if hasattr(each, "__metadata__")]
        type_: Any = options[0] if options else Annotated[(info.annotation, *info.metadata)]
        [kind] = [each for each in type_.__metadata__ if isinstance(each, FieldKind)]
        yield PolicyField(f"{prefix}{name}", part, type_, kind, declared)


FIELDS: Mapping[str, PolicyField] = MappingProxyType({field.path: field for field in _fields(ToolPolicy)})
NO_RESTRICTION = ToolPolicy()

Part = TypeVar("Part", bound=PolicyPart)


def policy_of(values: Mapping[str, Any]) -> ToolPolicy:
    """The policy with these values by path."""
    document: dict[str, Any] = {}
    for path, value in values.items():
        *groups, name = path.split(".")
        reduce(lambda table, group: table.setdefault(group, {}), groups, document)[name] = value
    return ToolPolicy.model_validate(document)


def values_of(policy: ToolPolicy) -> dict[str, Any]:
    """The value of every field by path, set or not."""
    return {path: reduce(getattr, path.split("."), policy) for path in FIELDS}


DEFAULT_POLICY = policy_of({path: field.declared.default for path, field in FIELDS.items()})
CLOSED_POLICY = policy_of({path: field.kind.closed for path, field in FIELDS.items()})


def merge_tool_policies(*layers: ToolPolicy) -> ToolPolicy:
    return reduce(meet, layers, NO_RESTRICTION)


def meet(a: Part, b: Part) -> Part:
    """The stricter of each field."""
    values: dict[str, Any] = {}
    for name, kind in _kinds(type(a)).items():
        one, other = getattr(a, name), getattr(b, name)
        if kind is None:
            values[name] = meet(one, other)
        elif one is None or other is None:
            values[name] = other if one is None else one
        else:
            values[name] = kind.meet(one, other)
    return type(a)(**values)


@cache
def _kinds(part: type[PolicyPart]) -> dict[str, FieldKind | None]:
    """The kind of each member of a part; None for a part of its own."""
    own = {field.path.rpartition(".")[2]: field.kind for field in _fields(part) if field.part is part}
    return {name: own.get(name) for name in part.model_fields}


def close_unset(policy: ToolPolicy, after: PolicyLayer) -> ToolPolicy:
    """Set what no layer up to `after` may leave open."""
    values = values_of(policy)
    for path, field in FIELDS.items():
        if values[path] == field.kind.unset and field.declared.closes_after is after:
            values[path] = field.if_unset
    return policy_of(values)


def to_document(part: BaseModel) -> dict[str, Any]:
    """Nested plain values; sets as sorted lists, so that equal policies have equal documents."""
    document: dict[str, Any] = {}
    for name in type(part).model_fields:
        value = getattr(part, name)
        if isinstance(value, BaseModel):
            document[name] = to_document(value)
        else:
            document[name] = sorted(value) if isinstance(value, frozenset) else value
    return document


def setting_name(layer: PolicyLayer, path: str) -> str:
    """The name of a field for who can change it in that layer."""
    variable = FIELDS[path].declared.variable
    return variable.name if layer is PolicyLayer.environment and variable else f"tools.{path}"


def form_description() -> list[dict[str, Any]]:
    """The settings form: its groups with their fields, with all texts in both languages."""
    groups: dict[type[PolicyPart], dict[str, Any]] = {}
    for path, field in FIELDS.items():
        declared, part = field.declared, field.part
        if PolicyLayer.settings not in declared.set_by:
            continue
        group = groups.setdefault(
            part,
            {
                "id": path.rpartition(".")[0] or "calls",
                "label": part.title._asdict(),
                "hint": part.about._asdict(),
                "fields": [],
            },
        )
        group["fields"].append(
            {
                "path": f"tools.{path}",
                "type": field.kind.editor,
                "label": declared.label._asdict(),
                "hint": declared.hint._asdict(),
                "within": f"tools.{declared.shown_with}" if declared.shown_with else None,
                "choices": [
                    {"value": value, "label": label._asdict()} for value, label in field.kind.choices
                ],
            }
        )
    return list(groups.values())
