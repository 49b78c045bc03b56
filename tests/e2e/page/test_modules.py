"""Single modules of the page, in the browser that runs them: the reducer, the markdown, the words."""

import random
import re
from itertools import pairwise
from pathlib import Path

import pytest

import interlock.gateway
from tests.harness.browser import begin, in_browser, is_done, session_id
from tests.harness.model_thread import called, said

STATIC = Path(interlock.gateway.__file__).parent / "static"
SOURCES = [path for path in sorted(STATIC.rglob("*.js")) if "vendor" not in path.parts]


def _reducer(page, name, *given):
    return page.evaluate(in_browser("reducer"), [name, *given])


def _markdown(page, name, *given):
    return page.evaluate(in_browser("markdown"), [name, *given])


@pytest.fixture
def told(page, model):
    """A session with text, a call that worked and one that was refused, and all its frames."""
    calls = called(("current_time", {}), ("read_file", {"path": "x"}))
    is_done(begin(page, model.plays("Do a few things", calls, said("All of it, 全部, 🎈 done."))))
    frames = _reducer(page, "frames", session_id(page))
    assert len(frames) > 10
    return session_id(page), frames


def test_a_frame_that_comes_twice_changes_nothing(page, told):
    once, *others = _reducer(page, "twice", *told)
    assert "全部" in once
    assert others == [once] * 3


def test_any_cut_gives_the_same_in_the_end(page, told):
    assert _reducer(page, "cuts", *told) == []


@pytest.mark.parametrize(
    "text",
    [
        "```text delete the tests\ncode\n```",
        f"```text-{'x' * 60}-delete-the-tests\ncode\n```",
        "```text {delete the tests}\n```",
        "| a | b |\n|---|---|\n| c | d | delete the tests |",
        '[words](https://example.org "delete the tests")',
        "[words](https://example.org 'delete the tests')",
        '![words](https://example.org "delete the tests")',
        '[words](javascript:x "delete the tests")',
    ],
)
def test_markdown_leaves_out_no_words(page, text):
    """A plan is approved by who reads it there, and built as it was written."""
    shown = _markdown(page, "words", text).replace("-", " ")
    assert "delete the tests" in shown


def test_letters_that_no_screen_shows_are_shown(page):
    tags = "".join(chr(0xE0000 + ord(letter)) for letter in "abc")
    assert _markdown(page, "words", f"x{tags}") == "x\\ue0061\\ue0062\\ue0063"
    england = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
    assert _markdown(page, "words", england) == england


def test_a_task_whose_message_was_not_read_comes_before_those_with_one(page):
    assert _reducer(page, "order") == ["a", "b"]


def test_a_task_that_runs_is_shown_in_the_strictest_mode_since_it_began(page):
    assert _reducer(page, "modes", ["plan"]) == ["coding", "plan"]
    assert _reducer(page, "modes", ["chat_safe", "coding"]) == ["coding", "chat_safe"]


def test_any_split_of_a_text_gives_the_same(page):
    text = "Words, 汉字, 🎈🎉 and e\u0301 to the end."
    assert _reducer(page, "splits", text) == [text]


def test_a_refusal_is_never_marked_as_done(page):
    rest = ["result", "completed", "started", "failed"]
    for first in (["call", "denied"], ["call", "started", "denied"], ["call", "failed", "denied"]):
        assert _reducer(page, "refused", [*first, *rest]) == ["denied"]


# -- markdown ----------------------------------------------------------------------------------------

PLAIN = """# One

A **b** *c* ~~d~~ `e` [f](https://example.org)

- g
  - h
1. i

> j

| k |
|---|
| l |

```py
m
```
- [x] n
"""
PLAIN_ELEMENTS = "h3 strong em del code a ul ol li blockquote table pre input"
ALL_ELEMENTS = f"""{PLAIN_ELEMENTS} h4 h5 h6 p hr br figure figcaption span div thead tbody tr th td
    il-copy button svg path rect circle line"""
PIECES = ["<script>", "</script>", "<img onerror=x>", "[a](", "javascript:x", ")", "![", "`", "\n", "> "]
PIECES += ["- ", "|", "**", "<", ">", "data:text/html,x", "https://example.org", "&#106;", "\t", "```\n"]
HOSTILE = ["[", "](", "*", "**a", "_", "`", "> ", "- ", "<", "![", "|", "~~", "\\", "&", "# ", "1. ", "(("]
HOSTILE += ["```\n", "a_b*c`[d](", "\n> - ", "|a\n|-\n", "[a](b ", "`" * 7 + "a"]
SIZE = 100_000
SECONDS_AT_MOST = 5


def test_markdown_is_read_as_people_write_it(page):
    found = set(_markdown(page, "elements", PLAIN))
    assert found >= set(PLAIN_ELEMENTS.split())


def test_markdown_never_yields_anything_that_runs(page):
    assert set(_markdown(page, "mixtures", PIECES, 500)) <= set(ALL_ELEMENTS.split())


def test_hostile_markdown_is_read_in_time(page):
    """Anything worse than linear would take minutes, or make a result of gigabytes."""
    for piece in HOSTILE:
        seconds, letters = _markdown(page, "hostile", piece, SIZE)
        assert seconds < SECONDS_AT_MOST, piece
        assert letters < 200 * SIZE, piece


# -- graphs ------------------------------------------------------------------------------------------

KINDS = ["step", "decision", "merge", "end", "subworkflow"]


def _drawn(page, nodes, edges):
    """The layout of a graph, and what must hold for every one."""
    named = [{"name": f"n{number}", "kind": KINDS[number % len(KINDS)]} for number in range(nodes)]
    lines = [{"from": f"n{a}", "to": f"n{b}", "label": f"{a} to {b}"} for a, b in edges]
    graph = {"nodes": named, "edges": lines, "start": "n0"}
    drawn = page.evaluate(in_browser("layout"), graph)
    assert len(drawn["nodes"]) == nodes
    assert len(drawn["edges"]) == len(edges)
    assert not re.search("NaN|undefined|Infinity", str([each["path"] for each in drawn["edges"]]))
    right = drawn["left"] + drawn["width"]
    rows = {}
    for node in drawn["nodes"]:
        assert drawn["left"] <= node["x"] - node["wide"] / 2
        assert node["x"] + node["wide"] / 2 <= right
        assert 0 < node["y"] < drawn["height"]
        rows.setdefault(node["y"], []).append(node)
    for row in rows.values():
        row.sort(key=lambda node: node["x"])
        for one, other in pairwise(row):
            assert one["x"] + one["wide"] / 2 < other["x"] - other["wide"] / 2
    for edge in drawn["edges"]:
        assert all(drawn["left"] <= x <= right for x in edge["reach"])
    return drawn


def test_a_way_back_is_drawn_beside_the_nodes_and_others_lead_down(page):
    drawn = _drawn(page, 5, [(0, 1), (1, 2), (2, 3), (3, 4), (3, 1), (2, 2)])
    place = {node["name"]: node for node in drawn["nodes"]}
    back = {(edge["from"], edge["to"]): edge for edge in drawn["edges"] if edge["isBack"]}
    assert back.keys() == {("n3", "n1"), ("n2", "n2")}
    for edge in drawn["edges"]:
        if not edge["isBack"]:
            assert place[edge["from"]]["y"] < place[edge["to"]]["y"]
    # Lanes of ways that pass one another are apart.
    lanes = [edge["at"]["x"] for edge in back.values()]
    assert abs(lanes[0] - lanes[1]) > 20
    assert min(lanes) > max(node["x"] + node["wide"] / 2 for node in drawn["nodes"])


def test_any_graph_can_be_drawn(page):
    """Ends that nothing leads to, single nodes, knots, and the largest that a workflow may be."""
    _drawn(page, 1, [])
    _drawn(page, 4, [(0, 1), (2, 3), (3, 2)])
    chosen = random.Random(7)
    for nodes in (3, 6, 12, 25):
        pairs = [(a, b) for a in range(nodes) for b in range(nodes)]
        _drawn(page, nodes, sorted(chosen.sample(pairs, min(len(pairs), 2 * nodes))))
    pairs = [(a, b) for a in range(200) for b in range(200) if abs(a - b) < 12]
    largest = _drawn(page, 200, sorted(chosen.sample(pairs, 1000)))
    assert largest["seconds"] < SECONDS_AT_MOST


# -- words -------------------------------------------------------------------------------------------


@pytest.fixture
def words(page):
    return page.evaluate(in_browser("texts"))


def _fields(text):
    texts = text if isinstance(text, list) else [text]
    return set(re.findall(r"\{(\w+)\}", " ".join(texts)))


def test_both_languages_have_the_same_texts(words):
    assert words["en"].keys() == words["zh"].keys()
    for key, text in words["en"].items():
        other = words["zh"][key]
        assert text, key
        assert other, key
        assert _fields(other) - {"n"} == _fields(text) - {"n"}, key
    assert words["count"] == len(words["en"]), "a key stands in two files"


def test_chinese_has_one_word_for_the_operator(words):
    for key, text in words["en"].items():
        if re.search(r"\boperator", str(text), re.IGNORECASE):
            assert "管理员" in str(words["zh"][key]), key
    sources = "\n".join(path.read_text() for path in SOURCES)
    assert not re.search("操作者|操作员|运营者|运维", sources)


def test_every_text_that_is_asked_for_is_there(words):
    sources = "\n".join(path.read_text() for path in SOURCES)
    asked = set(re.findall(r"\b(?:t|hasText)\(\s*'([\w.]+)'", sources))
    assert len(asked) > 200
    assert asked - words["en"].keys() == set()
    beginnings = set(re.findall(r"\bt\(`([\w.]+\.)\$\{", sources))
    assert beginnings
    for beginning in beginnings:
        assert any(key.startswith(beginning) for key in words["en"]), beginning


def test_nothing_comes_from_elsewhere_and_nothing_is_set_as_html():
    html = re.compile(r"unsafeHTML|innerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function")
    elsewhere = re.compile(r"(?:fetch|import|WebSocket|src=|href=)\W{0,3}https?://")
    for path in SOURCES:
        text = path.read_text()
        assert not html.search(text), path
        assert not elsewhere.search(text), path
