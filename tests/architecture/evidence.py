"""Reads tests/EVIDENCE.md and says what is wrong with it, without importing a test."""

import ast
import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

_HEADING = re.compile(r"## (S\d)")
_TEST = re.compile(r"`([^`\s]+)`")
_DECISION = re.compile(r"\[(\d{4})\]\(\.\./docs/decisions/([^)\s]+)\)")
_ID = r"S\d-[\w.]*\w"
_MENTIONED = re.compile(rf"({_ID})(?: to ({_ID}))?")
_SKIPPING = {"skip", "xfail"}
MAX_TESTS = 3


@dataclass(frozen=True)
class Row:
    line: int
    section: str
    id: str
    cell: str

    @cached_property
    def tests(self) -> list[str]:
        return _TEST.findall(self.cell)

    @cached_property
    def decisions(self) -> list[str]:
        return [name for _, name in _DECISION.findall(self.cell)]

    @property
    def other_words(self) -> str:
        rest = _DECISION.sub(" ", _TEST.sub(" ", self.cell)).replace("<br>", " ")
        return " ".join(rest.replace(",", " ").split())


def read_rows(text: str) -> list[Row]:
    rows, section = [], ""
    for number, line in enumerate(text.splitlines(), start=1):
        if heading := _HEADING.match(line):
            section = heading[1]
        if not line.startswith("|") or line.startswith(("| id |", "|---")):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        rows.append(Row(number, section, cells[0], " | ".join(cells[1:])))
    return rows


def read_ids(path: Path) -> dict[str, str]:
    """Every requirement's id, in the order of the specifications, with its kind."""
    return dict(line.split() for line in path.read_text().splitlines())


def faults(text: str, ids: list[str], root: Path) -> list[str]:
    """What is wrong with the page, in plain words; nothing where all is well."""
    rows = read_rows(text)
    found = []
    for requirement in ids:
        count = sum(row.id == requirement for row in rows)
        if count != 1:
            found.append(
                f"{requirement} has {count or 'no'} row{'s' if count > 1 else ''}; it needs exactly one"
            )
    for row in rows:
        found += [f"line {row.line}, {row.id}: {fault}" for fault in _row_faults(row, ids, root)]
    return found


def _row_faults(row: Row, ids: list[str], root: Path) -> list[str]:
    if row.id not in ids:
        return ["there is no such requirement"]
    found = []
    if not row.id.startswith(f"{row.section}-"):
        found.append(f"it stands under {row.section or 'no heading'}")
    if not (row.tests or row.decisions):
        return [*found, "it names neither a test nor a decision"]
    if row.other_words:
        found.append(f"'{row.other_words}' is neither a test in backticks nor a link to a decision")
    if len(row.tests) > MAX_TESTS:
        found.append(f"it names {len(row.tests)} tests; choose the {MAX_TESTS} that show most")
    found += [fault for test in row.tests if (fault := fault_of(test, root))]
    missing = [name for name in row.decisions if not (root / "docs" / "decisions" / name).is_file()]
    found += [f"there is no decision {name}" for name in missing]
    if not row.tests and not missing:
        paths = [root / "docs" / "decisions" / name for name in row.decisions]
        if not any(row.id in mentioned_ids(path.read_text(), ids) for path in paths):
            found.append("it rests on a decision alone, which does not name it")
    return found


def mentioned_ids(text: str, ids: list[str]) -> set[str]:
    """The ids that a text names, those between the ends of "A to B" included."""
    found: set[str] = set()
    for first, last in _MENTIONED.findall(text):
        if last in ids and first in ids:
            found.update(ids[ids.index(first) : ids.index(last) + 1])
        else:
            found.add(first)
    return found


def fault_of(test: str, root: Path) -> str | None:
    """What is wrong with a named test, or None."""
    name, *parts = test.split("::")
    path = root / name
    if not (name.startswith("tests/") and path.name.startswith("test_") and path.suffix == ".py"):
        return f"`{test}` is not the path and name of a test"
    if not path.is_file():
        return f"there is no file {name}"
    body: list[ast.stmt] = _module(path).body
    marks = _module_marks(body)
    for part in parts:
        definition = next(
            (node for node in body if isinstance(node, _DEFINITIONS) and node.name == part), None
        )
        if definition is None:
            return f"{name} has no {'::'.join(parts)}"
        marks |= {mark for decorator in definition.decorator_list for mark in _marks(decorator)}
        body = definition.body
    if not parts or not parts[-1].startswith("test_") or isinstance(definition, ast.ClassDef):
        return f"`{test}` does not name a test"
    if marks & _SKIPPING or _skips_at_once(body):
        return f"`{test}` is never run to its end: it is skipped or expected to fail"
    return None


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _named(name: str, body: list[ast.stmt]) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | None:
    return next((node for node in body if isinstance(node, _DEFINITIONS) and node.name == name), None)


@cache
def _module(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _module_marks(body: list[ast.stmt]) -> set[str]:
    """The marks of a whole module, and a skip that stands in it by itself."""
    found = {"skip"} if _skips_at_once(body) else set()
    for node in body:
        if isinstance(node, ast.Assign) and any(
            ast.unparse(target) == "pytestmark" for target in node.targets
        ):
            values = node.value.elts if isinstance(node.value, (ast.List, ast.Tuple)) else [node.value]
            found |= {mark for value in values for mark in _marks(value)}
    return found


def _marks(node: ast.expr) -> set[str]:
    """The name of a pytest mark that holds whatever happens."""
    call = node if isinstance(node, ast.Call) else None
    name = ast.unparse(call.func if call else node)
    if not name.startswith("pytest.mark."):
        return set()
    mark = name.removeprefix("pytest.mark.")
    always = (
        call is not None and call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value
    )
    if mark == "skipif":
        return {"skip"} if always else set()
    if mark == "xfail" and call is not None and call.args and not always:
        return set()
    return {mark}


def _skips_at_once(body: list[ast.stmt]) -> bool:
    return any(
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) in {"pytest.skip", "pytest.xfail"}
        for node in body
    )
