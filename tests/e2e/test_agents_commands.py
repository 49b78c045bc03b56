"""`interlock agents` as a person uses it."""

from hashlib import sha256

import pytest

from tests.harness.cli import one_line_error

GOOD = """---
description: Reads code and says what is wrong.
model: gpt-5-mini
tools.shell.enabled: false
tools.denied_tools: write_file, edit_file
---
<!-- for people -->
You read with care. The password = "Zx9-hunter-77-horse" is secret.
"""


@pytest.fixture
def agents(interlock):
    interlock("init")
    return interlock.home / ".local/share/interlock/agents"


def test_a_fresh_workspace_has_no_agents_and_no_problems(interlock, agents):
    done = interlock("agents", "list")
    assert (done.stdout, done.stderr) == ("", f"no agents in {agents}\n")
    assert interlock("agents", "check").stderr == "usable agents: 0; files with problems: 0\n"
    assert interlock.json("agents", "check") == {"agents": [], "problems": []}
    assert not (interlock.home / "state").exists()


def test_without_a_workspace_it_is_the_same(interlock):
    assert interlock.json("agents", "list") == {"agents": [], "problems": []}


def test_an_agent_is_listed_and_shown(interlock, agents):
    (agents / "reviewer.md").write_text(GOOD)
    assert "reviewer   gpt-5-mini   Reads code" in interlock("agents", "list").stdout
    told = interlock.json("agents", "show", "reviewer")
    assert told == {
        "name": "reviewer",
        "description": "Reads code and says what is wrong.",
        "model": "gpt-5-mini",
        "tools": {"tools.shell.enabled": False, "tools.denied_tools": ["edit_file", "write_file"]},
        "sha256": sha256(GOOD.encode()).hexdigest(),
        "persona": 'You read with care. The password = "***REDACTED***" is secret.',
    }
    shown = interlock("agents", "show", "reviewer").stdout
    assert "tightens  tools.shell.enabled: false\n" in shown
    assert "tightens  tools.denied_tools: edit_file, write_file\n" in shown
    assert "hunter" not in shown
    assert "for people" not in shown


def test_only_what_tightens_something_is_shown_as_tightening(interlock, agents):
    (agents / "reviewer.md").write_text(GOOD.replace("model:", "tools.fs.enabled: true\nmodel:"))
    shown = interlock("agents", "show", "reviewer").stdout
    assert [line for line in shown.splitlines() if line.startswith("tightens")] == [
        "tightens  tools.shell.enabled: false",
        "tightens  tools.denied_tools: edit_file, write_file",
    ]
    # What the file says is told to programs as it is.
    assert interlock.json("agents", "show", "reviewer")["tools"]["tools.fs.enabled"] is True


def test_check_prints_every_problem_of_every_file(interlock, agents):
    (agents / "reviewer.md").write_text(GOOD)
    (agents / "broken.md").write_text("---\ntools.fs.enabledd: false\n---\n")
    (agents / "link.md").symlink_to(agents / "reviewer.md")
    done = interlock("agents", "check", expect=1)
    assert done.stdout.splitlines() == [
        f"{agents}/broken.md:1: description is missing: describe the agent's purpose",
        f"{agents}/broken.md:2: there is no key tools.fs.enabledd; did you mean tools.fs.enabled?",
        f"{agents}/broken.md:4: the persona is missing: describe the agent below the front matter",
        f"{agents}/link.md:1: is a symlink; put the file itself there",
    ]
    assert done.stderr == "usable agents: 1; files with problems: 2\n"
    told = interlock.json("agents", "check", expect=1)
    assert told["agents"] == ["reviewer"]
    assert [(each["file"], each["line"]) for each in told["problems"]] == [
        *(("broken.md", line) for line in (1, 2, 4)),
        ("link.md", 1),
    ]
    listing = interlock("agents", "list")
    assert "not usable: broken.md, link.md" in listing.stderr
    assert "reviewer" in listing.stdout


def test_an_agent_that_is_not_there_or_broken_is_one_line(interlock, agents):
    (agents / "reviewer.md").write_text(GOOD)
    (agents / "broken.md").write_text("no head")
    assert "did you mean reviewer?" in one_line_error(interlock, "agents", "show", "reviewr")
    assert "broken.md:1: has no front matter" in one_line_error(interlock, "agents", "show", "broken")
    assert "there is no agent" in one_line_error(interlock, "agents", "show", "../../etc/passwd")


def test_a_name_on_disk_cannot_drive_the_terminal(interlock, agents):
    (agents / "x\x1b[2J.md").write_text("")
    assert "\x1b" not in interlock("agents", "check", expect=1).stdout
    assert "\x1b" not in interlock("agents", "list").stderr
    assert interlock.json("agents", "check", expect=1)["problems"][0]["file"] == "x\x1b[2J.md"
