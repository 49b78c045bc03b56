"""What servers give back, as text: shown, described, or said to be of no shape."""

import pytest

from interlock.tools.mcp.definition import make_definition
from interlock.tools.mcp.tool import to_tool_result

PLAIN = make_definition("t", "", {"type": "object"}, None, {})
NUMBERED = make_definition("t", "", {"type": "object"}, {"type": "object", "required": ["n"]}, {})


def shown(raw, definition=PLAIN):
    return to_tool_result(raw, definition, "s__t", "coding", "s")


def test_text_is_shown_and_what_is_none_is_described():
    parts = [
        {"type": "text", "text": "before"},
        {"type": "image", "data": "QUJD" * 1000, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "file:///b.bin", "blob": "QUJD"}},
        {"type": "resource_link", "uri": "https://example.org/x", "name": "x", "description": "a\npage"},
        {"type": "something new"},
    ]
    result = shown({"content": parts})
    assert result.ok
    assert result.stdout.splitlines() == [
        "before",
        "[image of type image/png, 3000 bytes, not shown]",
        "file:///a.txt",
        "inside",
        "[file of type unknown, 3 bytes, not shown file:///b.bin]",
        "link: https://example.org/x (a page)",
        "[a part of kind something new]",
    ]
    assert len(result.meta["not_shown"]) == 3


@pytest.mark.parametrize("raw", [{}, {"content": None}, {"content": "x"}, {"content": [None, 7, []]}])
def test_what_has_no_shape_does_no_harm(raw):
    assert shown(raw).ok


def test_a_structure_is_the_text_where_there_is_no_other():
    assert '"n": 7' in shown({"content": [], "structuredContent": {"n": 7}}, NUMBERED).stdout
    both = {"content": [{"type": "text", "text": "seven"}], "structuredContent": {"n": 7}}
    assert shown(both, NUMBERED).stdout == "seven"


def test_failures_are_failures():
    failed = shown({"isError": True, "content": [{"type": "text", "text": "no"}]})
    assert (failed.ok, failed.exit_code, failed.stdout) == (False, 1, "no")
    assert "declares a structured result" in shown({"content": []}, NUMBERED).failure.message
    assert (
        "does not match its declared schema" in shown({"structuredContent": {}}, NUMBERED).failure.message
    )
    asks = shown({"resultType": "input_required", "inputRequests": {}})
    assert "asks for more" in asks.failure.message
