"""Files and settings that people write: understood, or told with the file and the line of what is wrong."""

import time
from contextlib import suppress
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from interlock.agent.definitions import AgentDefinition, AgentDirectory
from interlock.config.settings import load_settings
from interlock.config.settings_report import describe_settings, secrets_of, setting_names
from interlock.core.errors import BadUsage, ConfigurationError, InvalidStoredSettings
from interlock.policy.policy_fields import to_document
from interlock.redaction.redactor import Redactor
from interlock.sessions.runtime_settings import StoredSettings, _applied, _version
from interlock.tools.mcp.server import AddServerRequest, McpServerConfig, make_server
from interlock.wiring import build_registry
from interlock.workflow.directory import WorkflowCheck, WorkflowDirectory, WorkflowInvalid
from tests.fuzz.odd import ANYTHING, WORDS, shuffled_lines, spoiled, torn, written

EXAMPLES = Path(__file__).parents[2] / "examples"
AGENT = (EXAMPLES / "workspace/agents/reviewer.md").read_bytes()
WORKFLOW = {
    path.name: path.read_bytes()
    for path in sorted((EXAMPLES / "workflows/plan_build_review").iterdir())
    if path.suffix in {".toml", ".md"}
}
TOOLS = frozenset(entry.tool.name for entry in build_registry())
AGENTS = {"planner": "a" * 64, "builder": "b" * 64, "reviewer": "c" * 64}
KEYS = (
    b"tools.shell.ports: [1, x\ntools.denied_tools: read_file\nmodel: \xc3\xa9\nmode: no\noutcomes: a,,b\n"
)

NO_FIXTURE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
# Whatever is written, it is read within this: a hundred times as long as it takes.
SECONDS = 5.0


def spoiled_text(data: bytes) -> st.SearchStrategy[bytes]:
    return st.one_of(torn(data), shuffled_lines(data), shuffled_lines(data).flatmap(torn))


def _within(began: float) -> None:
    assert time.process_time() - began < SECONDS


def _told(problems) -> None:
    """Each in one printable line, with the number of a line where the file has no key paths."""
    for problem in problems:
        assert problem.line is None or problem.line >= 1, problem
        assert problem.text
        assert str(problem).isprintable(), problem
        assert len(str(problem)) < 1000


@NO_FIXTURE
@given(data=spoiled_text(AGENT.replace(b"---\n", b"---\n" + KEYS, 1)))
@example(b"---\ndescription: \xe2\x80\xa8\n---\nx")
@example(b"---\ntools.denied_tools: " + b"a," * 20_000 + b"\n---\nx")
def test_an_agents_file_is_an_agent_or_told_with_its_line(tmp_path, data):
    (tmp_path / "reviewer.md").write_bytes(data)
    began = time.process_time()
    found = AgentDirectory(tmp_path, TOOLS).survey()
    _within(began)
    assert bool(found.agents) != bool(found.problems)
    _told(found.problems)
    for agent in found.agents:
        assert isinstance(agent, AgentDefinition)
        (agent.persona + agent.description).encode()
    lines = data.count(b"\n") + 2
    assert all(problem.line <= lines for problem in found.problems)


NAMES_OF_FILES = ("x.md", "plan.md", "\u00e9.md", "workflow.toml", "done.md")


@st.composite
def workflows(draw: st.DrawFn) -> dict[str, bytes]:
    """The example with some of its files spoiled, gone, or under another name."""
    files = dict(WORKFLOW)
    for name in draw(st.lists(st.sampled_from(sorted(WORKFLOW)), min_size=1, max_size=2, unique=True)):
        if draw(st.integers(0, 6)) == 0:
            files[draw(st.sampled_from(["x.md", "plan.md", "\u00e9.md", "workflow.toml", "done.md"]))] = (
                files.pop(name)
            )
        else:
            files[name] = draw(spoiled_text(files[name]))
    return files


@NO_FIXTURE
@given(files=workflows())
def test_a_workflow_is_one_or_told_with_its_lines(tmp_path, files):
    checked = _read_workflow(tmp_path, files)
    longest = max(data.count(b"\n") for data in files.values()) + 2
    assert all(problem.line is None or problem.line <= longest for problem in checked.problems)
    assert checked.problems or checked.workflow is not None


def _read_workflow(tmp_path: Path, files: dict[str, bytes]) -> WorkflowCheck:
    place = tmp_path / "flow"
    place.mkdir(exist_ok=True)
    for old in place.iterdir():
        old.unlink()
    for name, data in files.items():
        (place / name).write_bytes(data)
    folder = WorkflowDirectory(tmp_path, TOOLS, lambda: AGENTS)
    began = time.process_time()
    checked = folder.check("flow")
    _within(began)
    _told(checked.problems)
    if checked.problems:
        with pytest.raises(WorkflowInvalid):
            folder.load("flow")
    else:
        # What is sound can be pinned, and is read again as the same.
        assert folder.pin("flow").workflows()["flow"] == checked.workflow
    return checked


GRAPH = WORKFLOW["workflow.toml"]


@pytest.mark.parametrize(
    "more",
    [
        b'x = ["""""", """\n[' + b" " * 20_000 + b'\n"""]\n',
        b'x = \'a"""\'\ny = """ """ + """\n[' + b" " * 20_000 + b'\n"""\n',
        b"y = '''a''' # '''\n",
        b'k = ["""a""""]\n' * 3000,
        b"k = [" + b"[" * 900 + b"]" * 900 + b"]\n",
        b"k = " + b"{a=" * 900 + b"1" + b"}" * 900 + b"\n",
        b"a" + b".a" * 20_000 + b" = 1\n",
        b"a" * 60_000 + b" = 1\n",
        b"a-" * 30_000 + b" = 1\n",
        (b"a." * 19 + b"a ") * 1_500 + b"\n",
        b'x = "' + b"a." * 15 + b'a"\n',
        b"[" + b"a." * 20_000 + b"a]\n",
        b"n = " + b"1" * 30_000 + b"\n",
        b"n = " + b"1_" * 10_000 + b"1\n",
        b"n = 1e999\nm = nan\nd = 1979-05-27T07:32:00Z\nt = 07:32:00\n",
        b'k = """' + b"\\\n" * 20_000 + b'"""\n',
        b"#" * 60_000 + b"\n",
        b"\n" * 20_000,
        b'"" = 1\n"a.b" = 2\n"\\u0000" = 3\n"\\n" = 4\n',
    ],
)
def test_a_file_that_is_written_to_be_slow_is_not(tmp_path, more):
    for graph in (more + GRAPH, GRAPH + more, GRAPH + b'\n[nodes.odd]\ntitle = """\n' + more + b'"""\n'):
        checked = _read_workflow(tmp_path, WORKFLOW | {"workflow.toml": graph})
        assert checked.problems or checked.workflow is not None


# -- settings --

NUMBERS = ("0", "-1", "1", "nan", "inf", "1e999", "1_0", "٣", "0x10", "9" * 30, "9" * 5000, "1.5", "1e-400")
ADDRESSES = (
    *(
        "http://[::1",
        "http://x:99999/",
        "nats://a:b@[",
        "postgresql://",
        "sqlite:///",
        "://",
        "https://\u2100.com",
    ),
    *(
        "http://127.0.0.1:x",
        "http://[fe80::1%25x]/",
        "http://a b/",
        "http://\x00/",
        "mysql://x",
        "//x",
        "http://",
    ),
)
LISTS = (
    *("a,,b", ",", '["a"]', "{}", "[1,", "chat,coding,chat", "chat_safe"),
    "/",
    "/nowhere",
    "relative",
    "~",
    ":",
)
GIVEN = st.one_of(st.sampled_from(NUMBERS + ADDRESSES + LISTS + WORDS), st.text(max_size=20))


@NO_FIXTURE
@given(given=st.dictionaries(st.sampled_from(sorted(setting_names())), GIVEN, min_size=1, max_size=3))
@example({"GATEWAY_TLS_CERT": "x" * 5000})
@example({"NATS_TLS_CA": "x" * 5000})
def test_a_setting_counts_or_is_told_by_its_name(monkeypatch, tmp_path, given):
    given = {name: value for name, value in given.items() if "\x00" not in value}
    for name in setting_names():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("INTERLOCK_STATE_DIR", str(tmp_path / "state"))
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    told = _loaded()
    if told is not None:
        assert any(name in told for name in given), (told, given)
        assert "pydantic" not in told


def test_a_folder_that_leads_to_itself_is_no_riddle(monkeypatch, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "root").mkdir()
    monkeypatch.setenv("INTERLOCK_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("WORKSPACE_DIR", str(tmp_path / "loop"))
    monkeypatch.setenv("TOOL_ALLOWED_ROOTS", str(tmp_path / "root"))
    assert _loaded() is None


def _loaded() -> str | None:
    """What is wrong with the environment, if anything."""
    try:
        loaded = load_settings()
    except ConfigurationError as error:
        return str(error)
    for row in describe_settings(loaded):
        assert row.name in setting_names()
    assert all(isinstance(text, str) for text in secrets_of(loaded))
    return None


DEFAULTS = to_document(StoredSettings())


@given(document=spoiled(DEFAULTS))
def test_stored_settings_are_understood_or_told_to_be_invalid(document):
    stored = _understood(written(document))
    if stored is not None:
        assert StoredSettings.model_validate(to_document(stored)) == stored


def _understood(text: bytes) -> StoredSettings | None:
    try:
        return _version([(7, text.decode("utf-8", "replace"))]).settings
    except InvalidStoredSettings:
        return None


@given(patch=spoiled(DEFAULTS, st.one_of(ANYTHING.filter(lambda value: type(value) is not str), st.text())))
def test_a_change_of_settings_is_applied_or_told_to_be_invalid(patch):
    try:
        given = orjson.loads(written(patch))
    except orjson.JSONDecodeError:
        return
    if isinstance(given, dict):
        with suppress(InvalidStoredSettings):
            after = _applied(_version([]), given)
            assert StoredSettings.model_validate(to_document(after)) == after


GIVENS = (
    "A=b",
    "A=env:B",
    "A=file:/x",
    "A",
    "=",
    "A=",
    "\x00=1",
    "A=\udcff",
    "é=1",
    "A=env:",
    "Host=x",
    "A-B=\n",
)
PROGRAMS = ("echo", "/bin/echo", "", "/", ".", "no such", "\x00", "x" * 5000, "\udcff", "-x", "~", "$HOME")


@given(
    server_id=st.one_of(st.just("x"), st.sampled_from(WORDS)),
    command=st.lists(st.sampled_from(PROGRAMS), max_size=2),
    url=st.one_of(st.just(""), st.sampled_from(ADDRESSES), st.text(max_size=8).map("https://{}".format)),
    environment=st.lists(st.sampled_from(GIVENS), max_size=2),
    headers=st.lists(st.sampled_from(GIVENS), max_size=2),
    readable=st.lists(st.sampled_from(PROGRAMS).map(Path), max_size=2),
    roots=st.sampled_from(["read", "none", "write", "all", ""]),
)
@example(
    server_id="x", command=["echo"], url="", environment=["A=\udcff"], headers=[], readable=[], roots="read"
)
@example(
    server_id="x", command=["echo", "\udcff"], url="", environment=[], headers=[], readable=[], roots="read"
)
@example(
    server_id="x", command=["echo", "\0"], url="", environment=[], headers=[], readable=[], roots="read"
)
@example(
    server_id="x", command=[], url="https://\udcff", environment=[], headers=[], readable=[], roots="read"
)
@example(
    server_id="x",
    command=["echo"],
    url="",
    environment=[],
    headers=[],
    readable=[Path("x" * 5000)],
    roots="read",
)
def test_a_server_that_is_described_is_one_or_bad_usage(**described):
    wish = AddServerRequest(id=described.pop("server_id"), **described)
    try:
        server = make_server(wish, Redactor())
    except BadUsage:
        return
    assert McpServerConfig.from_dict(server.id, orjson.loads(orjson.dumps(server.as_dict()))) == server
