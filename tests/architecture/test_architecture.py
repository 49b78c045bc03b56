"""One-way imports, and documentation that matches the code."""

import ast
import inspect
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from scripts.reference import commands_page, stale, with_defaults

from interlock.cli.main import build_app
from interlock.config.settings_report import setting_names
from interlock.log.event import Event
from interlock.log.kinds import KINDS
from interlock.sessions.runtime_settings import field_paths
from interlock.wiring import build_registry

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "interlock").rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def text_of(name: str) -> str:
    return (ROOT / name).read_text()


@pytest.mark.full
@pytest.mark.parametrize(
    ("module", "statement", "contract"),
    [
        (
            "",
            "from interlock.tools.builtins import current_time",
            "A tool is reached through the gates alone",
        ),
        ("tools/undo.py", "import interlock.tools.undo", "A tool is reached through the gates alone"),
        (
            "sandbox/child/launcher.py",
            "import interlock.sandbox.child.launcher",
            "The sandbox is used by tools alone",
        ),
        ("", "import interlock.cli.main", "Layers, top down"),
    ],
)
def test_an_import_past_the_gates_breaks_the_build(tmp_path, module, statement, contract):
    """The contracts are real, for files that do not exist yet too: one wrong import fails them."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    if module:
        (tmp_path / "src" / "interlock" / module).write_text('"""A new module."""\n')
    guilty = tmp_path / "src" / "interlock" / "sessions" / "manager.py"
    guilty.write_text(guilty.read_text() + f"\n\ndef sneak():\n    {statement}\n")
    code = "import sys; sys.path.insert(0, 'src'); from importlinter.cli import lint_imports_command; "
    code += "lint_imports_command(['--no-cache'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": "src"},
    )
    assert done.returncode != 0
    assert f"{contract} BROKEN" in done.stdout


def test_only_the_runner_executes_a_tool():
    found = [name_of(path) for path in SOURCES if re.search(r"tool\.execute\(", path.read_text())]
    assert found == ["src/interlock/gates/runner.py"]


def test_no_module_works_when_it_is_imported():
    """Importing opens no file, reads no variable and starts nothing."""
    loose = [
        f"{name_of(path)}: {ast.unparse(node)}"
        for path in SOURCES
        if "migrations" not in path.parts
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
        if not ast.unparse(node).startswith("app.")
    ]
    assert loose == []


def test_every_setting_is_documented():
    text = text_of("docs/settings.md")
    assert [name for name in setting_names() if f"`{name}`" not in text] == []
    assert [path for path in field_paths() if f"`{path}`" not in text] == []


def test_no_setting_is_documented_that_does_not_exist():
    text = text_of("docs/settings.md")
    named = set(re.findall(r"^\| `([A-Z][A-Z_]+)`", text, flags=re.MULTILINE))
    assert named - set(setting_names()) == set()


def test_every_event_kind_is_documented_with_its_fields():
    text = text_of("docs/events.md")
    assert [kind for kind in KINDS if f"`{kind}`" not in text] == []
    for kind, event in KINDS.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{kind}`"))
        missing = [name for name in own_fields(event) if f"`{name}`" not in row]
        assert missing == [], kind


def test_what_the_code_tells_the_documentation_is_up_to_date():
    """If this fails: `make reference`."""
    assert stale() == []


def test_a_reference_that_says_something_else_is_noticed():
    """A default that is changed by hand, or a page that is edited, would be written anew."""
    text = text_of("docs/settings.md")
    wrong = text.replace("| `WORKER_SESSIONS` | `32` |", "| `WORKER_SESSIONS` | `9` |")
    assert wrong != text
    assert with_defaults(wrong) == text
    assert all(name in commands_page() for name in ("--no-worker", "--dry-run", "`SESSION`"))


def test_every_argument_of_every_command_says_what_it_is():
    assert [
        line for line in commands_page().splitlines() if line.startswith("| `") and line.endswith("|  |")
    ] == []


def own_fields(event: type[Event]) -> list[str]:
    """The fields a kind adds itself; those of all tool calls are documented once."""
    return list(inspect.get_annotations(event))


def commands(app, path: tuple[str, ...] = ()):
    for name in app:
        if name.startswith("-"):
            continue
        child = app[name]
        inner = [sub for sub in child if not sub.startswith("-")]
        if inner:
            yield from commands(child, (*path, name))
        else:
            yield " ".join((*path, name))


def test_every_tool_is_documented_with_its_aliases_and_arguments():
    text = text_of("docs/tools.md")
    for entry in build_registry():
        tool = entry.tool
        assert f"\n### {tool.name}\n" in text
        section = text.split(f"\n### {tool.name}\n")[1].split("\n### ")[0]
        missing = [name for name in entry.parser.schema["properties"] if f"`{name}`" not in section]
        assert missing == [], tool.name
        assert all(f"`{alias}`" in text for alias in tool.aliases), tool.name


def test_every_command_is_documented():
    text = text_of("docs/cli.md")
    known = list(commands(build_app()))
    assert [command for command in known if f"interlock {command}" not in text] == []


def test_every_decision_is_in_the_index():
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text()
    decisions = sorted(folder.glob("0*.md"))
    assert [path.name for path in decisions if path.name not in index] == []
    numbers = [path.name[:4] for path in decisions]
    assert numbers == sorted(set(numbers))


def test_what_measures_still_fits_what_it_measures():
    """Nobody runs it with the tests, and a name that moved would only be missed on the day of measuring."""
    modules = [path for folder in ("bench", "bench/soak") for path in (ROOT / folder).glob("*.py")]
    names = {name_of(path).removesuffix(".py").replace("/", ".") for path in modules}
    assert {import_module(name).__name__ for name in names} == names >= {"bench.growth", "bench.soak.model"}


def test_no_lock_file_names_a_registry():
    assert [
        name for name in ("uv.lock", "package-lock.json", "poetry.lock") if (ROOT / name).exists()
    ] == []
    for path in ("requirements.lock", "requirements-dev.lock"):
        text = text_of(path)
        assert "://" not in text
        assert all("--hash=sha256:" in entry for entry in re.split(r"\n(?=\S)", text) if "==" in entry)


def test_no_requirement_id_is_shown_to_a_user():
    pages = {ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")}
    found = [name_of(page) for page in pages if re.search(r"\bS[0-4]-[0-9A-Z]", page.read_text())]
    assert found == []


def test_the_playground_that_make_run_copies_is_there():
    """It was kept out of the repository once, by a rule that ignores the copy."""
    assert "def greet" in text_of("examples/playground/src/greet.py")


def test_ci_runs_the_linters_and_the_tests():
    assert re.findall(r"make ([\w-]+)", text_of(".ci/run")) == ["lint", "test", "test-failed"]
    lint = text_of("Makefile").partition("\nlint:")[2].partition("\n\n")[0]
    assert all(
        f"$(BIN)/{tool}" in lint for tool in ("ruff check", "ruff format --check", "mypy", "lint-imports")
    )
