"""Writes what the documentation can be told by the code: `make reference`.

`docs/reference/` is made whole: commands, events, protocol, tools. In docs/settings.md the fields of the
tool policy are made whole too; of other variables only the defaults are set, row by row, and what they mean
is written there by hand.
"""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import MISSING, fields
from inspect import getdoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

from interlock.cli.main import build_app
from interlock.commands.rules import builtin_rules
from interlock.config.settings import Settings
from interlock.config.sources import variable_name
from interlock.feed.frames import FEED_ITEM_DATA_TYPES
from interlock.gateway.methods import ALL
from interlock.log.event import Event
from interlock.log.kinds import KINDS
from interlock.policy.policy_fields import FIELDS, Declaration
from interlock.policy.verdict import PolicyLayer
from interlock.wiring import build_registry
from scripts.embedding import embed_parts

if TYPE_CHECKING:
    from cyclopts import App
    from cyclopts.argument import Argument

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
SETTINGS = ROOT / "docs" / "settings.md"
MADE = "<!-- Made by `make reference` from the code. Change it there. -->"
FRAMES: dict[str, Any] = {kind.value: data for kind, data in FEED_ITEM_DATA_TYPES.items()}
JSON_TYPES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "dict": "object",
    "list": "array",
    "tuple": "array",
    "Any": "any",
    "None": "null",
}
# Defaults that follow from something else, in words.
FOLLOWS = {
    "INTERLOCK_STATE_DIR": "`interlock` in `$XDG_STATE_HOME`, else in `~/.local/state`",
    "WORKSPACE_DIR": "`interlock` in `$XDG_DATA_HOME`, else in `~/.local/share`",
    "DATABASE_URL": "`interlock.db` in the state folder",
    "IMAGE_BASE_URL": "`OPENAI_BASE_URL`",
    "IMAGE_API_KEY": "`OPENAI_API_KEY`",
    "TOOL_PROTECTED_NAMES": (
        "`.git/hooks`, `.git/config`, `.git/HEAD`, `.git/config.worktree`, `.git/commondir`, `hooks`, "
        "`config` and `commondir` in `.git/modules/**`, `commondir` and `config.worktree` in "
        "`.git/worktrees/**`, "
        "`.mcp.json`, `.vscode`, `.config/fish`, and the start-up files of bash and zsh"
    ),
}


def pages() -> dict[Path, str]:
    """Every page that follows from the code, as it should be."""
    return {
        FOLDER / "cli.md": commands_page(),
        FOLDER / "events.md": events_page(),
        FOLDER / "protocol.md": protocol_page(),
        FOLDER / "tools.md": tools_page(),
        FOLDER / "embed.md": embed_page(),
        FOLDER / "command-rules.md": command_rules_page(),
        SETTINGS: with_defaults(with_policy_fields(SETTINGS.read_text())),
    }


def stale() -> list[str]:
    return [str(path.relative_to(ROOT)) for path, text in pages().items() if not _is(path, text)]


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


def _page(title: str, told: str, parts: list[str]) -> str:
    return "\n\n".join([f"# {title}", MADE, told, *parts]) + "\n"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    def line(cells: tuple[str, ...]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    return "\n".join([line(head), "|" + "---|" * len(head), *(line(row) for row in rows)])


def embed_page() -> str:
    told = (
        "What `from interlock.embed import …` offers, all of it. "
        "[The developer's page](../howto/developer.md) shows how it is used."
    )
    return _page("Embedding", told, embed_parts())


# -- commands ----------------------------------------------------------------------------------------


def commands_page() -> str:
    told = (
        "Every command with its options. [cli.md](../cli.md) explains them, with examples and exit codes."
    )
    return _page("Commands", told, [_command(path, app) for path, app in commands(build_app())])


def commands(app: "App", path: tuple[str, ...] = ()) -> list[tuple[str, "App"]]:
    found: list[tuple[str, App]] = []
    for name in app:
        if not name.startswith("-"):
            inner = [each for each in app[name] if not each.startswith("-")]
            found += commands(app[name], (*path, name)) if inner else [(" ".join((*path, name)), app[name])]
    return found


def _command(path: str, app: "App") -> str:
    arguments = [each for each in app.assemble_argument_collection() if each.parameter.show is not False]
    known = _documented(getdoc(app.default_command) or "")
    usage = " ".join(["interlock", path, *(_usage(each) for each in arguments)])
    parts = [f"## interlock {path}", f"`{usage}`", known.pop("", "")]
    rows = [
        (f"`{_called(each)}`", _default(each), known.get(_own_name(each), _shared(each)))
        for each in arguments
    ]
    return "\n\n".join([*parts, *([_table(("argument", "default", "meaning"), rows)] if rows else [])])


def _documented(text: str) -> dict[str, str]:
    """What a docstring says: of the command, under the empty name, and of each of its parameters."""
    told, _, named = text.partition("Parameters\n----------\n")
    known = {"": " ".join(told.split())}
    for name, meaning in re.findall(r"^(\w+)\n((?:[ \t]+.*\n?|\n)+)", named + "\n", flags=re.MULTILINE):
        known[name] = " ".join(meaning.split())
    return known


def _own_name(argument: "Argument") -> str:
    return str(argument.field_info.name)


def _is_positional(argument: "Argument") -> bool:
    return argument.field_info.kind is not argument.field_info.KEYWORD_ONLY


def _called(argument: "Argument") -> str:
    if _is_positional(argument):
        return _own_name(argument).upper()
    names = [name for name in argument.names if name.startswith("--")] or list(argument.names)
    return ", ".join(dict.fromkeys([*names, *argument.names]))


def _usage(argument: "Argument") -> str:
    name = _called(argument).split(", ")[0]
    value = "" if _is_positional(argument) or argument.hint is bool else f" {_kind(argument.hint)}"
    several = "…" if "tuple" in str(argument.hint) else ""
    return f"{name}{several}" if argument.required else f"[{name}{value}]{several}"


def _kind(hint: Any) -> str:
    text = str(hint)
    named = [("Path", "PATH"), ("float", "N"), ("int", "N")]
    return next((shown for part, shown in named if part in text), "TEXT")


def _default(argument: "Argument") -> str:
    value = argument.field_info.default
    if argument.required:
        return "required"
    return "" if value in (None, False, "", ()) else f"`{'on' if value is True else value}`"


def _shared(argument: "Argument") -> str:
    """What means the same wherever it stands."""
    said = {"json": "Print the same facts as JSON."}
    return str(argument.parameter.help or said.get(_own_name(argument), ""))


# -- settings ----------------------------------------------------------------------------------------


def with_defaults(text: str) -> str:
    """The page with the defaults that the code has."""
    for name, default in defaults(Settings).items():
        row = re.compile(rf"^(\| `{re.escape(name)}` \| )[^|]*( \|)", flags=re.MULTILINE)
        text = row.sub(rf"\g<1>{default.replace(chr(92), chr(92) * 2)}\g<2>", text)
    return text


def defaults(group: type[BaseSettings]) -> dict[str, str]:
    known: dict[str, str] = {}
    for field_name, field in group.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseSettings):
            known |= defaults(field.annotation)
            continue
        name = variable_name(group, field_name)
        if name in FOLLOWS:
            known[name] = FOLLOWS[name]
        else:
            value = field.get_default(call_default_factory=True)
            known[name] = "required" if value is PydanticUndefined else _shown(value)
    return known


def with_policy_fields(text: str) -> str:
    """The page with the fields of the tool policy: the operator's variables, and the stored settings."""
    variables = [
        (f"`{each.variable.name}`", _shown(each.variable.default), f"Limits `tools.{path}`.")
        for path, each in _declared()
        if each.variable is not None
    ]
    settings = [
        (f"`tools.{path}`", _shown_json(each.default), each.doc or each.hint.en)
        for path, each in _declared()
        if PolicyLayer.settings in each.set_by
    ]
    for mark, table in (
        ("policy variables", _table(("variable", "default", "meaning"), variables)),
        ("policy settings", _table(("setting", "default", "meaning"), settings)),
    ):
        start, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
        before, _, rest = text.partition(start)
        text = f"{before}{start}\n{table}\n{end}{rest.partition(end)[2]}"
    return text


def _declared() -> list[tuple[str, Declaration]]:
    return [(path, field.declared) for path, field in FIELDS.items()]


def _shown_json(value: Any) -> str:
    if value is None:
        return "unset"
    return f"`{json.dumps(sorted(value) if isinstance(value, frozenset) else value)}`"


def _shown(value: Any) -> str:
    match value:
        case None:
            return "unset"
        case bool():
            return f"`{str(value).lower()}`"
        case float():
            return f"`{value:g}`"
        case tuple() | frozenset() | dict():
            words = ",".join(
                str(each) for each in (sorted(value) if isinstance(value, frozenset) else value)
            )
            return f"`{words}`" if words else "empty"
        case _:
            return f"`{value}`"


# -- events ------------------------------------------------------------------------------------------


def events_page() -> str:
    told = (
        "Every kind of event with its fields. [events.md](../events.md) says when each is written, "
        "what its fields mean, and how the chain is computed."
    )
    return _page("Events", told, [_kind_of_event(kind, KINDS[kind]) for kind in sorted(KINDS)])


def _kind_of_event(kind: str, event: type[Event]) -> str:
    hints = get_type_hints(event)
    rows = [
        (
            f"`{member.name}`",
            f"`{_type(hints[member.name])}`",
            "erasable" if member.name in event.erasable else "",
            _field_default(member),
        )
        for member in fields(event)
    ]
    words = event.__doc__ if event.__doc__ and not event.__doc__.startswith(f"{event.__name__}(") else ""
    parts = [f"## {kind}", *([" ".join(words.split())] if words else [])]
    return "\n\n".join([*parts, _table(("field", "type", "content", "where it is missing"), rows)])


def _field_default(member: Any) -> str:
    if member.default is not MISSING:
        return f"`{json.dumps(member.default)}`"
    return "" if member.default_factory is MISSING else f"`{json.dumps(member.default_factory())}`"


def _type(hint: Any) -> str:
    """As JSON calls it: whoever reads the log or the socket need not know Python."""
    text = hint.__name__ if type(hint) is type else str(hint)
    for python, told in JSON_TYPES.items():
        text = re.sub(rf"\b{python}\b", told, text)
    text = re.sub(r"\b(?:typing|collections\.abc|interlock(?:\.\w+)+)\.", "", text)
    return text.replace("object[string, any]", "object")


# -- protocol ----------------------------------------------------------------------------------------


def protocol_page() -> str:
    told = (
        "The methods with their params, and the frames with their data. [protocol.md](../protocol.md) "
        "explains them, what each method answers, and how to get in."
    )
    methods = [_method(name) for name in sorted(ALL)]
    return _page("Protocol", told, ["## Methods", *methods, "## Frames", *map(_frame, FRAMES)])


def _method(name: str) -> str:
    schema = ALL[name].params.model_json_schema()
    required = set(schema.get("required", ()))
    rows = [
        (f"`{field}`", "yes" if field in required else "", _schema_words(part))
        for field, part in schema.get("properties", {}).items()
    ]
    return "\n\n".join(
        [f"### {name}", _table(("param", "required", "takes"), rows) if rows else "No params."]
    )


def _schema_words(part: dict[str, Any]) -> str:
    if "anyOf" in part:
        return " or ".join(_schema_words(each) for each in part["anyOf"])
    limits = {
        "minimum": "at least {}",
        "maximum": "at most {}",
        "minLength": "at least {} characters",
        "maxLength": "at most {} characters",
    }
    words = [said.format(part[key]) for key, said in limits.items() if key in part]
    words += [f"at most {part['maxItems']} of them"] if "maxItems" in part else []
    words += [f"default `{json.dumps(part['default'])}`"] if part.get("default") is not None else []
    return ", ".join([str(part.get("type", part.get("$ref", "any")).split("/")[-1]), *words])


def _frame(name: str) -> str:
    data = FRAMES[name]
    optional = data.__optional_keys__
    rows = [
        (f"`{field}`", f"`{_type(hint)}`", "may be missing" if field in optional else "")
        for field, hint in get_type_hints(data).items()
    ]
    words = [" ".join(data.__doc__.split())] if data.__doc__ else []
    return "\n\n".join([f"### {name}", *words, _table(("field", "type", ""), rows)])


# -- tools -------------------------------------------------------------------------------------------


def tools_page() -> str:
    told = (
        "Every built-in tool as a model sees it. [tools.md](../tools.md) has the rules, limits and "
        "results of each."
    )
    return _page("Tools", told, [_tool(entry) for entry in build_registry()])


def _tool(entry: Any) -> str:
    tool = entry.tool
    facts = [
        ("modes", ", ".join(sorted(tool.allowed_modes))),
        ("effect", tool.effect.value),
        ("group", tool.group.value),
        ("switches", ", ".join(sorted(tool.switches))),
        ("needs", ", ".join(sorted(tool.needs))),
        ("also called", ", ".join(tool.aliases)),
    ]
    schema = json.dumps(entry.parser.schema, indent=2, ensure_ascii=False)
    table = _table(("", ""), [(name, text) for name, text in facts if text])
    return "\n\n".join([f"## {tool.name}", tool.description, table, f"```json\n{schema}\n```"])


# -- rules about commands --


def command_rules_page() -> str:
    told = (
        "The built-in rules about commands: what is refused, and an example of each. "
        "[security.md](../security.md#rules-about-commands) explains rules and how to add some."
    )
    rows = [
        (f"`{rule.name}`", rule.decision.value, rule.reason, f"`{rule.match[0]}`", f"`{rule.not_match[0]}`")
        for rule in builtin_rules()
    ]
    head = ("rule", "decision", "because", "matches", "does not match")
    return _page("Rules about commands", told, [_table(head, rows)])


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages().items():
        if not _is(path, text):
            path.write_text(text)
            print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
