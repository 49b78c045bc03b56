"""Agents' files: what they say, every mistake with its line, and that no file can widen anything (S4-3)."""

import os
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agent.definitions import (
    MAX_AGENT_BYTES,
    MAX_AGENTS,
    AgentChangedSinceStart,
    AgentDefinition,
    AgentDirectory,
    AgentHeader,
    AgentInvalid,
    AgentNotFound,
)
from interlock.agent.front_matter import header_keys
from interlock.config.modes import ToolMode
from interlock.policy.authority import AuthorityCache, effective_policy
from interlock.policy.authority_inputs import AuthorityInputs, Capabilities
from interlock.policy.policy_fields import (
    NO_RESTRICTION,
    McpPolicy,
    ToolPolicy,
    merge_tool_policies,
    to_document,
)
from interlock.sessions.runtime_settings import StoredSettings, field_paths, flatten_document
from interlock.wiring import build_registry
from tests.unit.gates.test_policy import is_no_wider, policies

REGISTRY = build_registry()
TOOLS = {entry.tool.name for entry in REGISTRY} | set(REGISTRY.aliases())
EVERYTHING = Capabilities(present=frozenset(need for entry in REGISTRY for need in entry.tool.needs))
CACHE = AuthorityCache(REGISTRY)
KEYS = header_keys(AgentHeader)
GOOD = """---
# A comment of its own line.
name: reviewer
description: "Reads code: says what is wrong."
model: gpt-5-mini

tools.shell.enabled: false
tools.fs.max_read_bytes: 1000
tools.mcp.allowed_servers: [weather, 'maps']
tools.shell.ports: 443
tools.max_timeout_seconds: 2.5
tools.denied_tools: write_file, fs.read, other__tool
---

<!-- for people -->
You read with care.

---
Even this.
"""


@pytest.fixture
def folder(tmp_path) -> AgentDirectory:
    (tmp_path / "agents").mkdir()
    return AgentDirectory(tmp_path / "agents", TOOLS)


def put(folder: AgentDirectory, text: str | bytes, file: str = "reviewer.md") -> None:
    (folder.path / file).write_bytes(text if isinstance(text, bytes) else text.encode())


def problems(folder: AgentDirectory) -> list[str]:
    return [str(problem) for problem in folder.survey().problems]


def head(*lines: str) -> str:
    return "\n".join(["---", "description: d", *lines, "---", "persona"])


def test_a_file_becomes_an_agent(folder):
    put(folder, GOOD)
    agent = folder.load("reviewer")
    assert agent == AgentDefinition(
        name="reviewer",
        description="Reads code: says what is wrong.",
        persona="You read with care.\n\n---\nEven this.",
        model="gpt-5-mini",
        tools=ToolPolicy.model_validate(
            {
                "shell": {"enabled": False, "ports": [443]},
                "fs": {"max_read_bytes": 1000},
                "mcp": {"allowed_servers": ["weather", "maps"]},
                "max_timeout_seconds": 2.5,
                "denied_tools": ["write_file", "fs.read", "other__tool"],
            }
        ),
        sha256=sha256(GOOD.encode()).hexdigest(),
    )
    assert folder.survey().agents == (agent,)
    assert problems(folder) == []


def test_without_a_model_and_a_policy_it_has_those_of_the_session(folder):
    put(folder, "\ufeff" + head().replace("\n", "\r\n"))
    agent = folder.load("reviewer")
    assert (agent.model, agent.tools, agent.persona) == (None, NO_RESTRICTION, "persona")


def test_there_is_a_key_for_every_field_of_a_policy():
    assert {key for key in KEYS if key.startswith("tools.")} == {
        f"tools.{path}" for path in field_paths(ToolPolicy())
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1: has no front matter"),
        ("You are.", "1: has no front matter"),
        ("---\ndescription: d\n", "1: has front matter without an end"),
        ("---\n---\n", "1: description is missing: describe the agent's purpose"),
        (head("persona: x"), "3: there is no key persona (valid: name, description"),
        (head("modell: x"), "3: there is no key modell; did you mean model?"),
        (
            head("tools.fs.enable: false"),
            "3: there is no key tools.fs.enable; did you mean tools.fs.enabled?",
        ),
        (head("denied_tools: bash"), "3: there is no key denied_tools; did you mean tools.denied_tools?"),
        (head("tools:"), "3: tools is a group; write a full key with dots"),
        (head("", "tools:", "  fs:"), "5: nested keys are not supported"),
        (head("- bash"), "3: nested keys are not supported"),
        (head("just words"), "3: this line is not of the form key: value"),
        (head("model:x"), "3: this line is not of the form key: value"),
        (head("model: a b"), "3: model must be the name of a model, without spaces"),
        (head("model:"), "3: model must be the name of a model"),
        (head('model: "x'), "3: the quotes around the value of model do not match"),
        (head("description: again"), "3: description occurs twice; the first is on line 2"),
        ("---\ndescription: >\n---\np", "2: description must be on one line"),
        (f"---\ndescription: {'d' * 301}\n---\np", "2: description can have at most 300 characters"),
        (head("name: other"), "3: name must be reviewer, as in the file name"),
        (head("name: ../reviewer"), "3: name must be reviewer"),
        (head("tools.fs.enabled: no"), "3: tools.fs.enabled must be true or false, not 'no'"),
        (head("tools.fs.enabled: True"), "3: tools.fs.enabled must be true or false, not 'True'"),
        (head("tools.fs.enabled: true # yes"), "3: tools.fs.enabled must be true or false"),
        (head("tools.fs.enabled:"), "3: tools.fs.enabled must be true or false, not ''"),
        (head("tools.fs.max_read_bytes: -1"), "3: tools.fs.max_read_bytes must be a whole number"),
        (head("tools.fs.max_read_bytes: 0"), "3: tools.fs.max_read_bytes: must be greater than 0"),
        (head("tools.fs.max_read_bytes: 1e9"), "3: tools.fs.max_read_bytes must be a whole number"),
        (head("tools.fs.max_read_bytes: ٣"), "3: tools.fs.max_read_bytes must be a whole number"),
        (
            head(f"tools.fs.max_read_bytes: {'9' * 5000}"),
            "3: tools.fs.max_read_bytes must be a whole number",
        ),
        (head("tools.shell.ports: 80, 70000"), "3: tools.shell.ports: must be less than 65536"),
        (
            head("tools.max_timeout_seconds: nan"),
            "3: tools.max_timeout_seconds must be a number of seconds",
        ),
        (
            head("tools.max_timeout_seconds: 0"),
            "3: tools.max_timeout_seconds: must be greater than 0",
        ),
        (head("tools.denied_tools: bash grep"), "3: tools.denied_tools must be a comma-separated list"),
        (head("tools.denied_tools: [bash"), "3: tools.denied_tools must be a comma-separated list"),
        (head("tools.denied_tools: bash,"), "3: tools.denied_tools must be a comma-separated list"),
        (head("tools.denied_tools: write_fil"), "3: there is no tool write_fil; did you mean write_file?"),
        (
            head("tools.denied_tools: bash, group:medai"),
            "3: tools.denied_tools: 'group:medai' names no group of tools; did you mean group:media?",
        ),
        (head("tools.shell.unknown: maybe"), "3: tools.shell.unknown: must be one of 'allow', 'ask' or"),
        ("---\ndescription: d\n---\n \n<!-- nobody -->\n", "4: the persona is missing"),
        ("---\ndescription: d\n---\nfine\n\x1b[2J", "5: contains the control character U+001B"),
        (b"---\ndescription: \xff\n---\np", "2: is not UTF-8 text"),
        (b"\x7fELF\x00\x00", "1: contains the control character"),
        (b"---\n" + b"x" * MAX_AGENT_BYTES, f"1: has {MAX_AGENT_BYTES + 4} bytes; the limit is"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_nothing_is_loaded(folder, text, expected):
    put(folder, text)
    assert any(problem.startswith(f"reviewer.md:{expected}") for problem in problems(folder))
    assert folder.survey().agents == ()
    with pytest.raises(AgentInvalid, match=r"reviewer\.md:\d+: "):
        folder.load("reviewer")


def test_every_mistake_of_every_file_is_told_in_order(folder):
    put(folder, "---\ntools.fs.enabled: 1\nmodell: x\nmodell: y\n  z\n---\n", "b.md")
    put(folder, "no head", "a.md")
    put(folder, head(), "c.md")
    lines = [(problem.file, problem.line) for problem in folder.survey().problems]
    assert lines == [("a.md", 1), ("b.md", 1), *(("b.md", line) for line in (2, 3, 4, 5)), ("b.md", 7)]
    assert [agent.name for agent in folder.survey().agents] == ["c"]


@pytest.mark.parametrize(
    "file", ["Reviewer.md", "a b.md", "reviewer", "reviewer.txt", "reviewer.MD", "-x.md", ".md.md", "é.md"]
)
def test_a_file_that_is_not_named_like_an_agent_is_told(folder, file):
    put(folder, head(), file)
    if file.startswith("."):
        assert problems(folder) == []
    else:
        assert problems(folder) == [
            f"{file}:1: is not a valid agent file name: lower-case letters, digits, - and _, then .md"
        ]
    assert folder.survey().agents == ()


def test_copies_of_editors_and_a_readme_are_passed_over(folder):
    for file in ("README.md", ".reviewer.md.swp", "reviewer.md~", "#reviewer.md#", ".git"):
        put(folder, "anything", file)
    assert folder.survey() == replace(folder.survey(), agents=(), problems=())


@pytest.mark.parametrize(
    "name",
    ["../secret", "a/b", "/etc/passwd", "", ".", "..", "a\x00b", "reviewer.md", "R", "x" * 65, "\udcff"],
)
def test_a_name_leads_nowhere_else(folder, name):
    (folder.path.parent / "secret.md").write_text(head())
    put(folder, head())
    with pytest.raises(AgentNotFound):
        folder.load(name)


def test_an_unknown_name_is_answered_with_the_near_one(folder):
    put(folder, head())
    with pytest.raises(AgentNotFound, match="did you mean reviewer"):
        folder.load("reviwer")
    with pytest.raises(AgentNotFound, match=r"there is no agent 'x'$"):
        AgentDirectory(folder.path / "nowhere", ()).load("x")
    assert AgentDirectory(folder.path / "nowhere", ()).survey().agents == ()


def test_only_a_plain_file_of_its_own_is_an_agent(folder, tmp_path):
    (tmp_path / "elsewhere.md").write_text(head())
    (folder.path / "link.md").symlink_to(tmp_path / "elsewhere.md")
    (folder.path / "dangling.md").symlink_to(tmp_path / "nowhere")
    (folder.path / "hard.md").hardlink_to(tmp_path / "elsewhere.md")
    (folder.path / "folder.md").mkdir()
    os.mkfifo(folder.path / "pipe.md")
    assert problems(folder) == [
        "dangling.md:1: is a symlink; put the file itself there",
        "folder.md:1: is not a regular file",
        "hard.md:1: has more than one hard link; copy the file instead",
        "link.md:1: is a symlink; put the file itself there",
        "pipe.md:1: is not a regular file",
    ]


def test_a_huge_file_and_a_huge_folder_are_bounded(folder):
    with (folder.path / "huge.md").open("wb") as file:
        file.truncate(1 << 40)
    assert problems(folder) == [f"huge.md:1: has {1 << 40} bytes; the limit is {MAX_AGENT_BYTES}"]
    (folder.path / "huge.md").unlink()
    for number in range(MAX_AGENTS + 1):
        put(folder, head(), f"a{number:05}.md")
    assert len(folder.survey().agents) == MAX_AGENTS
    assert problems(folder) == [
        f"a{MAX_AGENTS:05}.md:1: is ignored: there are more than {MAX_AGENTS} files"
    ]


def test_a_task_goes_on_with_the_agent_it_began_with_or_not_at_all(folder):
    put(folder, head())
    began = folder.load("reviewer")
    assert folder.load_pinned("reviewer", began.sha256) == began
    put(folder, head() + " ")
    with pytest.raises(AgentChangedSinceStart, match="has changed since this task started"):
        folder.load_pinned("reviewer", began.sha256)


def test_the_examples_are_agents():
    examples = AgentDirectory(Path("examples/workspace/agents"), TOOLS)
    assert [agent.name for agent in examples.survey().agents] == ["reviewer"]
    assert problems(examples) == []
    agent = examples.load("reviewer")
    for mode in ToolMode:
        authority = CACHE.get(authority_inputs(mode, StoredSettings().tools, agent.tools))
        effects = {entry.tool.effect.value for entry in REGISTRY if entry.tool.name in authority.exposed}
        assert effects <= {"read", "ask", "tell"}


# -- an agent can only tighten ------------------------------------------------------------------------


def as_lines(policy: ToolPolicy) -> list[str]:
    lines = []
    for path, value in flatten_document(to_document(policy), "tools."):
        if value is not None and not (path == "tools.denied_tools" and not value):
            text = f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value).lower()
            lines.append(f"{path}: {text}")
    return lines


def authority_inputs(
    mode: ToolMode, system: ToolPolicy, agent: ToolPolicy = NO_RESTRICTION
) -> AuthorityInputs:
    return AuthorityInputs(
        mode=mode, open_modes=frozenset(ToolMode), settings=system, agent=agent, capabilities=EVERYTHING
    )


def assert_no_wider(system: ToolPolicy, agent: ToolPolicy) -> None:
    if system.mcp.allowed_servers is None:
        # The agent's own list of servers holds then; everything else can only tighten.
        agent = agent.model_copy(update={"mcp": McpPolicy(enabled=agent.mcp.enabled)})
    for mode in (ToolMode.chat, ToolMode.coding):
        with_agent, without = authority_inputs(mode, system, agent), authority_inputs(mode, system)
        assert is_no_wider(effective_policy(with_agent), effective_policy(without))
        narrow, wide = CACHE.get(with_agent), CACHE.get(without)
        assert set(narrow.exposed) <= set(wide.exposed)
        assert narrow.profile.network_ports <= wide.profile.network_ports
        for limit in type(wide.limits).__slots__:
            assert getattr(narrow.limits, limit) <= getattr(wide.limits, limit)


@given(system=policies, agent=policies)
def test_any_policy_in_a_file_arrives_as_it_was_written_and_never_widens(tmp_path_factory, system, agent):
    folder = AgentDirectory(tmp_path_factory.mktemp("agents"), {"a", "b", "c"})
    put(folder, head(*as_lines(agent)))
    loaded = folder.load("reviewer").tools
    assert loaded == agent
    assert is_no_wider(merge_tool_policies(system, loaded), system)
    assert_no_wider(system, loaded)


VALUES = st.sampled_from(
    [
        "true",
        "false",
        "True",
        "yes",
        "1",
        "99999999",
        "0",
        "[]",
        "bash",
        "*",
        "weather",
        "''",
        '"true"',
        "null",
    ]
)
LINES = st.builds("{}: {}".format, st.sampled_from([*KEYS, "tools", "tools.*", "mode", "allow"]), VALUES)


@given(
    lines=st.lists(LINES | st.text(st.characters(blacklist_categories=["Cs"]), max_size=20), max_size=6),
    system=st.sampled_from([StoredSettings().tools, NO_RESTRICTION]) | policies,
)
def test_whatever_a_file_says_it_is_refused_or_narrower(tmp_path_factory, lines, system):
    folder = AgentDirectory(tmp_path_factory.mktemp("agents"), TOOLS)
    put(folder, head(*lines))
    try:
        agent = folder.load("reviewer")
    except AgentInvalid:
        return
    assert_no_wider(system, agent.tools)


@given(st.binary(max_size=300))
def test_any_bytes_are_an_agent_or_a_problem_with_a_line(tmp_path_factory, data):
    folder = AgentDirectory(tmp_path_factory.mktemp("agents"), TOOLS)
    put(folder, b"---\ndescription: d\n" + data)
    survey = folder.survey()
    assert bool(survey.agents) != bool(survey.problems)
    assert all(1 <= problem.line <= data.count(b"\n") + 3 for problem in survey.problems)
