"""One task of many calls over a real socket: on disk, in the transcript, in the log (S0-4, S3-7)."""

import asyncio
import json
from dataclasses import dataclass

import pytest

from tests.e2e.agent.conftest import furnish
from tests.harness.cli_processes import CompletedCommand, ProcessHarness, walk
from tests.harness.model_answers import called, said
from tests.harness.model_server import ModelRequest, ModelServer

CALLS = [
    ("list_files", {"path": "."}),
    ("read_file", {"path": "notes.txt"}),
    ("search_files", {"pattern": "beta"}),
    ("write_file", {"path": "new.txt", "content": "one\n"}),
    ("edit_file", {"path": "notes.txt", "find": "beta", "replace": "gamma"}),
    ("move_file", {"source": "new.txt", "destination": "moved.txt"}),
    ("delete_file", {"path": "old.txt"}),
    ("current_time", {"timezone": "UTC"}),
]


@dataclass(frozen=True)
class Finished:
    harness: ProcessHarness
    asked: list[ModelRequest]
    ran: CompletedCommand


def answers(calls=CALLS):
    """One call in each turn, then an answer."""
    asked = [called(call, ids=f"turn{number}") for number, call in enumerate(calls)]
    return [*asked, said("All eight are done.")]


@pytest.fixture(scope="module")
def finished(tmp_path_factory, new_state, sqlite_template) -> Finished:
    """A place where a script has had all of it done."""
    harness = furnish(tmp_path_factory.mktemp("whole"), new_state, sqlite_template)
    (harness.root / "notes.txt").write_text("alpha\nbeta\n")
    (harness.root / "old.txt").write_text("old\n")

    async def work() -> Finished:
        async with ModelServer(answers()) as server:
            harness.asks(server)
            ran = await harness.execute("do all of it")
        assert server.faults == []
        return Finished(harness, server.asked, ran)

    return asyncio.run(work())


def test_a_task_of_eight_calls_is_really_done(finished):
    harness, ran = finished.harness, finished.ran
    assert ran.stdout == "All eight are done.\n"
    assert ran.last_lines[-1] == f"recorded  interlock events tree {harness.session}"
    assert {path.name: path.read_text() for path in harness.root.iterdir()} == {
        "notes.txt": "alpha\ngamma\n",
        "moved.txt": "one\n",
    }
    listed, read, found, *_, time = harness.results()
    assert (listed["stdout"], read["stdout"]) == ("notes.txt\nold.txt\n", "alpha\nbeta\n")
    assert "notes.txt" in found["stdout"]
    assert "UTC" in time["stdout"]
    assert [result["ok"] for result in harness.results()] == [True] * 8


def test_the_server_receives_the_transcript_that_is_stored(finished):
    """Every call id has exactly one tool message, in the order of the calls; only more is ever added."""
    finished.harness.assert_sound()
    stored = finished.harness.messages()
    assert len(finished.asked) == 9
    for number, asked in enumerate(finished.asked):
        system, *told = asked.messages
        assert system["role"] == "system"
        assert told == _as_sent(stored[: 1 + 2 * number])
    choices = [asked.document.get("tool_choice", "auto") for asked in finished.asked]
    assert choices == ["required"] + ["auto"] * 8
    exposed = [tool["function"]["name"] for tool in finished.asked[0].document["tools"]]
    assert {name for name, _ in CALLS} <= set(exposed)
    # Questions are not available in a script, so the tool is not offered.
    assert "ask_user" not in exposed


def _as_sent(messages: list[dict]) -> list[dict]:
    """An assistant's message without words is sent without content."""
    return [
        {**message, "content": message["content"] or None} if message["role"] == "assistant" else message
        for message in messages
    ]


async def test_the_tree_of_events_is_complete_and_verifies(finished):
    harness = finished.harness
    tree = json.loads((await harness.run("events", "tree", harness.session, "--json")).stdout)
    nodes = list(walk(tree))
    assert len(nodes) == len(harness.events())
    (queued,) = [node for node in nodes if node["kind"] == "task.queued"]
    (started,) = [node for node in queued["children"] if node["kind"] == "task.started"]
    assert [node["kind"] for node in started["children"]] == ["agent.started", "task.finished"]
    (agent, _) = started["children"]
    *turns, completed = agent["children"]
    assert completed["kind"] == "agent.completed"
    assert [turn["kind"] for turn in turns] == ["turn.completed"] * 9
    for turn, (name, _) in zip(turns[:-1], CALLS, strict=True):
        kinds = [node["kind"] for node in turn["children"]]
        assert kinds == ["tool_call.started"]
        call = turn["children"][0]
        assert call["payload"]["tool_name"] == name
        assert [node["kind"] for node in call["children"]] == ["tool_call.completed"]
    verified = (await harness.run("events", "verify")).stdout
    assert verified.startswith("verified: ")


async def test_calls_of_one_turn_that_only_look_run_side_by_side(harness, server):
    """Four commands of a second each take far less than four; a write waits for its place."""
    look = ("bash_readonly", {"cmd": "sleep 1; ls"})
    write = ("write_file", {"path": "x.txt", "content": "x\n"})
    server.add(called(look, look, look, look, write, ("list_files", {})), said("Seen."))
    await harness.execute("look around")
    harness.assert_sound()
    *looked, _, listed = harness.results()
    assert [result["stdout"] for result in looked] == [""] * 4
    assert listed["stdout"] == "x.txt\n"
    calls = harness.events("tool_call.started", "tool_call.completed")
    begun = [event.kind for event in calls]
    assert begun[:4] == ["tool_call.started"] * 4
    assert begun[4:8] == ["tool_call.completed"] * 4
    assert [event.fields["tool_name"] for event in calls[8:]] == ["write_file"] * 2 + ["list_files"] * 2


async def test_the_events_are_told_as_json_lines(harness, server):
    (harness.root / "notes.txt").write_text("alpha\n")
    server.add(*answers(CALLS[:2]))
    ran = await harness.execute("look", "--json")
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    kinds = [each["type"] for each in told if each["type"] != "text_delta"]
    step = ["tool_call", "tool_result", "turn_completed"]
    assert kinds == ["session", *step, *step, "turn_completed", "task_ended", "task"]
    assert "".join(each["text"] for each in told if each["type"] == "text_delta") == "All eight are done."
    assert (told[-1]["status"], told[-1]["exit_code"]) == ("done", 0)
    assert ran.stderr == ""
