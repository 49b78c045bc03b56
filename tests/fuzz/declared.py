"""What the protocol declares, as strategies for what is sent and checks of what comes back."""

import re
from pathlib import Path
from typing import Any, get_type_hints, is_typeddict

from hypothesis import strategies as st
from pydantic import TypeAdapter

from interlock.feed.frames import FEED_ITEM_DATA_TYPES
from interlock.gateway.methods import ALL
from interlock.gateway.protocol import SESSION_CHANGED

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
ROWS = {
    found[1]: found[2].rpartition("|")[2]
    for found in re.finditer(r"^\| `([a-z_]+\.[a-z_]+)` \|(.*)\|$", PAGE, re.MULTILINE)
}
CODES = frozenset(
    re.findall(r"`([A-Z][A-Z_]+)`", PAGE.partition("## Errors")[2].partition("## Methods")[0])
)
# They are told of in the words below the table.
ELSEWHERE = {"mcp.inspect", "mcp.allow", "mcp.remove", "workflows.get", "runs.get"}
FIELDS = {kind.value: data for kind, data in FEED_ITEM_DATA_TYPES.items()}


def _adapter(hint: Any) -> TypeAdapter[Any]:
    # Of a table within a table only that it is one.
    return TypeAdapter(dict[str, Any] if is_typeddict(hint) else hint)


DATA = {
    kind: {name: _adapter(hint) for name, hint in get_type_hints(declared).items()}
    for kind, declared in FIELDS.items()
}
Json = dict[str, Any]


def params(method: str) -> st.SearchStrategy[Json]:
    """What fits the method's declaration."""
    schema = ALL[method].params.model_json_schema()
    needed = schema.get("required", [])
    fields = {name: _fitting(field) for name, field in schema.get("properties", {}).items()}
    return st.fixed_dictionaries(
        {name: fields[name] for name in needed},
        optional={name: field for name, field in fields.items() if name not in needed},
    )


def _fitting(schema: Json) -> st.SearchStrategy[Any]:
    if "anyOf" in schema:
        return st.one_of(*map(_fitting, schema["anyOf"]))
    match schema.get("type"):
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "integer":
            most = schema.get("maximum", schema.get("exclusiveMaximum", 2**62) - 1)
            return st.integers(schema.get("minimum", 0), most)
        case "string" if "pattern" in schema:
            return st.from_regex(re.compile(schema["pattern"].replace("$", r"\Z")), fullmatch=True).map(
                lambda text: text[: schema.get("maxLength", 64)]
            )
        case "string":
            return st.text(
                min_size=schema.get("minLength", 0), max_size=min(40, schema.get("maxLength", 40))
            )
        case "array":
            return st.lists(_fitting(schema["items"]), min_size=schema.get("minItems", 0), max_size=3)
    return st.dictionaries(
        st.text(max_size=5), st.none() | st.integers(0, 9) | st.text(max_size=5), max_size=3
    )


def must_fit(frame: Json) -> None:
    """Every frame that a server sends, by the page and by the types."""
    assert set(frame) == {"type", "id", "session_id", "seq", "task_id", "data"}, frame
    kind, data = frame["type"], frame["data"]
    assert frame["seq"] is None or (type(frame["seq"]) is int and frame["session_id"]), frame
    if kind == "response":
        return
    if kind == SESSION_CHANGED:
        assert set(data) == {"session"}, frame
        return
    declared = FIELDS[kind]
    assert declared.__required_keys__ <= set(data) <= set(declared.__annotations__), frame
    for name, value in data.items():
        DATA[kind][name].validate_python(value, strict=True)
    if kind == "error":
        assert data["code"] in CODES, data
        assert data["code"] != "INTERNAL_ERROR", data
        assert "Traceback" not in data["message"]


def must_answer(method: str, data: Json) -> None:
    """Nothing that the page does not tell of."""
    if method not in ELSEWHERE:
        told = set(re.findall(r"`([a-z_]+)\??`", ROWS[method]))
        assert set(data) <= told, (method, set(data) - told)
