"""Paths that must work, and paths that must not, through `interlock tool call --jsonl` as a user would.

`path_cases*.jsonl` have trees in the first line and then one case a line (S3-6.1.2, S3-6.1.3, S3-12.2).
What is refused to one tool is tried with every other tool that takes a path.
"""

import hashlib
import json
import os
from itertools import chain
from pathlib import Path

import pytest

from interlock.core.errors import ToolError
from interlock.sandbox.paths import PathAccess, PathResolver
from interlock.sandbox.profile import SandboxProfile
from tests.escape.cases import path_cases
from tests.harness.case_tables import daily
from tests.harness.cli import CliRunner

LAYOUTS, CASES = path_cases()
CANARY = "CANARY"
EXPECTED = {"allow": True, "allow_without_canary": True, "refuse": False, "error": False, "no_canary": None}
CHANGING = ("edit", "write", "move", "delete")
# What is moved or deleted is gone for the others: each of these has a tree of its own.
TOGETHER = (("read", "list", "glob", "grep", "edit", "write"), ("move",), ("delete",))
GUARDED = {".git", ".vscode"}

TOOLS = {
    "read": lambda path, _: ("read_file", {"path": path}),
    "write": lambda path, _: ("write_file", {"path": path, "content": "written by a test"}),
    "edit": lambda path, _: ("edit_file", {"path": path, "find": "ok", "replace": "okay"}),
    "move": lambda path, to: ("move_file", {"source": path, "destination": to}),
    "delete": lambda path, _: ("delete_file", {"path": path}),
    "list": lambda path, _: ("list_files", {"path": path}),
    "glob": lambda pattern, _: ("find_files", {"name_pattern": pattern}),
    "grep": lambda path, _: ("search_files", {"path": path, "pattern": CANARY}),
}

EVERY_OTHER_TOOL = [
    lambda path: ("read_file", {"path": path}),
    lambda path: ("list_files", {"path": path, "recursive": True}),
    lambda path: ("find_files", {"path": path, "name_pattern": "*"}),
    lambda path: ("search_files", {"path": path, "pattern": "."}),
    lambda path: ("get_project_structure", {"path": path}),
    lambda path: ("write_file", {"path": path, "content": "x"}),
    lambda path: ("write_file", {"path": path, "content": "x", "mode": "append"}),
    lambda path: ("write_file", {"path": f"{path}/new.txt", "content": "x"}),
    lambda path: ("edit_file", {"path": path, "find": "C", "replace": "D"}),
    lambda path: ("move_file", {"source": "README.md", "destination": f"{path}/moved"}),
    lambda path: ("delete_file", {"path": f"{path}/secret.txt"}),
]


class Tree:
    """One of the layouts on disk, and everything that lies outside its roots as it was at first."""

    def __init__(self, name: str, top: Path) -> None:
        self.top, layout = top, LAYOUTS[name]
        for folder in layout["folders"]:
            (top / folder).mkdir(parents=True, exist_ok=True)
        for path, content in layout["files"].items():
            (top / path).write_text(CANARY if content == CANARY else content)
        for path, target in layout["links"].items():
            (top / path).symlink_to(target.replace("$T", str(top)))
        for path, target in layout["hard_links"].items():
            (top / path).hardlink_to(top / target)
        for path in layout.get("pipes", ()):
            os.mkfifo(top / path)
        self.roots = [self.named(root) for root in layout["roots"]]
        self.read_only = [self.named(root) for root in layout.get("read_only", ())]
        self.before, self.guarded_before = self.outside(), self.guarded()

    def named(self, text: str) -> str:
        return text.replace("$T", str(self.top))

    def outside(self) -> dict[str, str]:
        inside = [os.path.realpath(root) for root in self.roots]
        state = {}
        for folder, folders, files in os.walk(self.top):
            if any(Path(folder).is_relative_to(root) for root in inside):
                folders.clear()
                continue
            for name in (*folders, *files):
                path = Path(folder) / name
                content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
                state[str(path)] = hashlib.sha256(content).hexdigest()
        return state

    def guarded(self) -> dict[str, str]:
        """What is in folders of which other programs run something."""
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.top.rglob("*")
            if GUARDED & set(path.parts) and path.is_file() and not path.is_symlink()
        }

    def calls(self, calls: list[tuple[str, dict]], state: Path) -> list[dict]:
        """The results of calls, made one after another in one process and one session."""
        words = ["call", "--jsonl", "--mode", "coding"]
        words += [word for root in self.roots for word in ("--root", root)]
        lines = "".join(
            json.dumps({"id": number, "name": name, "arguments": arguments}) + "\n"
            for number, (name, arguments) in enumerate(calls)
        )
        folder = Path(os.path.realpath(self.roots[0]))
        done = CliRunner(state).run("tool", *words, given=lines.encode(), cwd=folder)
        assert done.returncode == 0, done.stderr
        assert CANARY.encode() not in done.stderr
        assert b"Traceback" not in done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert [answer["id"] for answer in answers] == list(range(len(calls)))
        return [answer["result"] for answer in answers]


def calls_of(case: dict, tree: Tree) -> list[tuple[str, dict]]:
    """The call of a case. A file that is to be changed is read before."""
    path = tree.named(case["input"])
    before = [TOOLS["read"](path, "")] if case["op"] in CHANGING else []
    return [*before, TOOLS[case["op"]](path, tree.named(case.get("to", "")))]


def cases_of(layout: str, operations: tuple[str, ...]) -> list[dict]:
    """In the order that lets each find what it needs: what changes files comes last."""
    return sorted(
        (
            case
            for case in CASES
            if case["layout"] == layout and case["op"] in operations and case["expect"] in EXPECTED
        ),
        key=lambda case: CHANGING.index(case["op"]) if case["op"] in CHANGING else -1,
    )


@pytest.mark.parametrize(
    ("layout", "operations"),
    [
        pytest.param(layout, operations, id=f"{layout}-{operations[-1]}")
        for layout in LAYOUTS
        for operations in TOGETHER
        if cases_of(layout, operations)
    ],
)
def test_every_path_is_judged_right(layout, operations, tmp_path):
    tree = Tree(layout, tmp_path / "tree")
    cases = cases_of(layout, operations)
    calls = [calls_of(case, tree) for case in cases]
    answers = iter(tree.calls(list(chain(*calls)), tmp_path / "state"))
    wrong = []
    for case, made in zip(cases, calls, strict=True):
        results = [next(answers) for _ in made]
        shown = json.dumps(results, ensure_ascii=False)
        allowed = EXPECTED[case["expect"]]
        if (allowed is not None and results[-1]["ok"] is not allowed) or CANARY in shown.replace(
            repr(CANARY), ""
        ):
            wrong.append((case["id"], case["input"][:80], case["expect"], shown[-300:]))
    assert wrong == []
    assert tree.outside() == tree.before
    assert tree.guarded() == tree.guarded_before


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if LAYOUTS[name].get("read_only")])
def test_a_folder_that_may_only_be_read_is_not_written(layout, tmp_path):
    tree = Tree(layout, tmp_path / "tree")
    roots = tuple(map(Path, tree.roots))
    writable = tuple(root for root in roots if str(root) not in tree.read_only)
    resolver = PathResolver(SandboxProfile(roots, writable))
    cases = [case for case in CASES if case["layout"] == layout and case["expect"] == "refuse_if_read_only"]
    assert cases
    for case in cases:
        with pytest.raises(ToolError, match=r"read-only here|outside"):
            resolver.find(tree.named(case["input"]), PathAccess.write)


def test_a_file_that_also_has_a_name_outside_is_not_read_or_copied(tmp_path):
    tree = Tree("L1", tmp_path / "tree")
    calls = [
        ("read_file", {"path": "hard"}),
        ("search_files", {"path": "hard", "pattern": "."}),
        ("search_files", {"pattern": CANARY}),
        ("write_file", {"path": "hard", "content": "x"}),
        ("write_file", {"path": "hard", "content": "x", "mode": "append"}),
        ("edit_file", {"path": "hard", "find": "C", "replace": "D"}),
        ("move_file", {"source": "hard", "destination": "moved"}),
        ("read_file", {"path": "moved"}),
    ]
    results = tree.calls(calls, tmp_path / "state")
    assert CANARY not in json.dumps(results)
    codes = [result.get("error_code") for result in results]
    assert codes == [
        "PATH_DENIED",
        None,
        None,
        "PATH_DENIED",
        "PATH_DENIED",
        "PATH_DENIED",
        None,
        "PATH_DENIED",
    ]
    assert tree.outside() == tree.before


@pytest.mark.parametrize("layout", daily(LAYOUTS, 4))
def test_what_one_tool_refuses_no_other_tool_lets_through(layout, tmp_path):
    tree = Tree(layout, tmp_path / "tree")
    refused = [
        case["input"]
        for case in CASES
        if case["layout"] == layout
        and case["expect"] == "refuse"
        and case["op"] in {"read", "list"}
        # This one is a name inside that nobody has used yet: to write it is no escape.
        and not case["input"].startswith("\t")
    ]
    calls = [call(tree.named(path)) for path in refused for call in EVERY_OTHER_TOOL if path]
    results = tree.calls(calls, tmp_path / "state")
    for call, result in zip(calls, results, strict=True):
        assert not result["ok"], (call, result)
        assert CANARY not in json.dumps(result), call
    assert tree.outside() == tree.before
