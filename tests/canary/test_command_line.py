"""Secrets planted through commands of `interlock`: in what they print, log and keep."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.db.database import StoreConfig
from interlock.redaction.redactor import MARK
from tests.canary.canaries import Canaries
from tests.canary.hunting import files_below, hunt, tables_of
from tests.harness.cli_in_process import run_in_process
from tests.harness.image_server import ImageServer, ImageServerThread


class Terminal:
    """Runs one command after the other and keeps what each of them printed."""

    def __init__(self, canaries: Canaries, folder: Path, surroundings: dict[str, str]) -> None:
        self.canaries, self.folder, self.root = canaries, folder, folder / "root"
        self.root.mkdir()
        self.variables = surroundings
        self._printed: dict[str, bytes] = {}
        self._raw = [self.root, *(folder / "state" / name for name in ("kept", "outputs", "sealed"))]

    def __call__(self, *arguments: str, given: str = "", module: str = "interlock") -> str:
        own = {"HOME": str(self.folder), "PATH": "/usr/bin:/bin", "PYTHONPATH": _PYTHONPATH}
        environment = own | self.variables
        if module == "interlock":
            done = run_in_process(
                list(arguments), environment=environment, cwd=self.folder, given=given.encode()
            )
        else:
            done = subprocess.run(
                [sys.executable, "-m", module, *arguments],
                input=given.encode(),
                capture_output=True,
                env=environment,
                cwd=_ROOT,
            )
        name = f"{len(self._printed)}: {' '.join(arguments)[:40]}"
        self._printed[name] = done.stdout + b"\n" + done.stderr
        return done.stdout.decode()

    def tool(self, name: str, arguments: object, *more: str) -> str:
        args = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return self("tool", "call", name, "--args", args, *self.here, *more)

    @property
    def here(self) -> tuple[str, ...]:
        return ("--mode", "coding", "--root", str(self.root))

    def is_clean(self, config: StoreConfig) -> bool:
        places = files_below(self.folder, besides=self._raw) | tables_of(config)
        left = hunt(self.canaries, places | self._printed)
        assert not left, "\n".join(map(str, left))
        return any(MARK.encode() in printed for printed in self._printed.values())

    def has_printed(self, text: str) -> bool:
        return any(text.encode() in printed for printed in self._printed.values())


_ROOT = Path(__file__).parents[2]
_PYTHONPATH = ":".join(path for path in sys.path if path)


@pytest.fixture
def terminal(canaries, surroundings, tmp_path) -> Terminal:
    return Terminal(canaries, tmp_path, surroundings)


on_sqlite = pytest.mark.parametrize("store_config", ["sqlite"], indirect=True)


def test_tool_calls_and_everything_that_reads_them_back(terminal: Terminal, store_config: StoreConfig):
    canaries = terminal.canaries
    (terminal.root / "all.txt").write_text(canaries.text)
    secret, known = canaries["a GitHub token"].secret, canaries.environment["DEPLOY_TOKEN"]
    named = f"of {secret} here.txt"
    (terminal.root / named).write_text(known)
    lines = [
        {"id": 1, "name": "read_file", "arguments": {"path": "all.txt"}},
        {"id": 2, "name": "write_file", "arguments": {"path": "new.txt", "content": canaries.text}},
        {"id": 3, "name": "bash", "arguments": {"cmd": "cat all.txt; sleep 1.1; cat all.txt >&2; exit 3"}},
        {"id": 4, "name": f"no {secret}", "arguments": {known: 1}},
        {"id": 5, "name": "delete_file", "arguments": {"path": named}},
        {"id": 6, "name": "memory_append", "arguments": {"content": canaries.text, "title": f"of {known}"}},
        {"id": 7, "name": "memory_search", "arguments": {"query": f"ordinary {known}"}},
        {"id": 8, "name": "read_file", f"a {secret} key": known},
        {"id": 9, "name": "read_file", "arguments": f'{{"path": "{known}'},
    ]
    calls = "\n".join([*map(json.dumps, lines), f"{{no JSON {secret}"])
    assert '"ok":true' in terminal("tool", "call", "--jsonl", *terminal.here, given=calls)
    (session,) = json.loads(terminal("sessions", "list", "--group", "all", "--json"))
    terminal.tool("read_file", {"path": "all.txt"})
    terminal.tool(f"no {known}", {"path": secret}, "--json")
    terminal.tool("read_file", f"{{no JSON {known}")
    for more in ((), ("--json",)):
        terminal("events", "tail", "--limit", "1000", *more)
        terminal("policy", "explain", "read_file", "--args", json.dumps({"path": f"/no/{secret}"}), *more)
        terminal("undo", session["id"], "--dry-run", *more)
    terminal("policy", "explain", known)
    terminal("sessions", "show", session["id"])
    terminal("sessions", "export", session["id"], "--out", "export.jsonl")
    terminal("undo", session["id"])
    assert (terminal.root / named).exists()
    terminal("backup", "backup.zip")
    assert (terminal.folder / "backup.zip").exists()
    assert terminal.is_clean(store_config)


@on_sqlite
def test_questions_settings_and_the_filter(terminal: Terminal, store_config: StoreConfig):
    canaries = terminal.canaries
    text = f"{canaries['an OpenAI key'].secret} or {canaries.environment['VAULT_PASSWORD']}"
    form = {"type": "form", "message": f"Is it {text}?", "fields": [{"name": "password"}]}
    terminal.tool("ask_user", form, "--ask", "--json")
    terminal.tool("ask_user", {"type": "confirmation", "message": f"{text}?"}, "--ask")
    confirmation, question = json.loads(terminal("questions", "list", "--json"))
    terminal("questions", "answer", question["id"], "--set", f"password={text}")
    terminal("questions", "show", question["id"])
    terminal("questions", "close", confirmation["id"], "--reason", text)
    terminal("questions", "answer", question["id"], "--args", f"{{{text}")
    terminal("settings", "set", "tools.denied_tools", json.dumps([text]))
    terminal("settings", "set", f"tools.{text}", "1")
    terminal("settings", "set", "tools.fs.enabled", text)
    terminal("config", "show", "--json")
    assert MARK in terminal("redact", given=canaries.text)
    assert terminal.is_clean(store_config)


@on_sqlite
def test_images_of_an_endpoint_that_repeats_its_key(terminal: Terminal, store_config: StoreConfig):
    key = terminal.canaries.environment["IMAGE_API_KEY"]
    with ImageServerThread(ImageServer(key)) as endpoint:
        terminal.variables["IMAGE_BASE_URL"] = endpoint.base_url
        endpoint.reply({"error": {"message": f"not with {key}: {terminal.canaries.text}"}}, status=500)
        terminal.tool("generate_image", {"prompt": f"{key} {terminal.canaries.text}", "path": "a.png"})
    assert endpoint.bodies
    assert terminal.is_clean(store_config)


@on_sqlite
def test_wrong_words_and_faults(terminal: Terminal, store_config: StoreConfig):
    canaries = terminal.canaries
    text = f"{canaries['a GitHub token'].secret} or {canaries.environment['DEPLOY_TOKEN']}"
    for words in (
        [text],
        ["tool", "call", f"--{text}"],
        ["tool", "call", "x", "--timeout-seconds", text],
        ["tool", "call", "x", "--mode", text],
        ["tool", "call", "x", "--root", f"/no/{text}"],
        ["sessions", "show", text],
        ["events", "tail", "--after", text],
    ):
        terminal(*words)
    # Python writes a text with both kinds of quotes in another way, and a rule for SQL wants plain ones.
    given = "\n".join(canary.text for canary in canaries if canary.kind != "a password in SQL")
    terminal("break", given=given, module="tests.canary.faulty_process")
    for said in ("some.library", "KeyError", "OSError", "unexpected error (RuntimeError)"):
        assert terminal.has_printed(said), said
    terminal.variables |= {"TOOL_TIMEOUT_SECONDS": canaries["a Google key"].secret}
    terminal("sessions", "list", "--group", "all")
    assert terminal.has_printed("TOOL_TIMEOUT_SECONDS")
    assert terminal.is_clean(store_config)
