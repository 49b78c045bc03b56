"""A model that knows what is masked hides a command behind it: the log must still tell what was run."""

import json
import os
from hashlib import sha256
from pathlib import Path

import pytest

from interlock.core.errors import AuditUnavailable
from interlock.embed import open_gates, tool
from interlock.log.kinds import merge_payload
from interlock.log.retention import RetentionSweeper
from interlock.wiring.agents import open_agent_runtime
from interlock.wiring.projections import verify
from tests.harness.cli import CliRunner, one_line_error

# The log shows `PASSWORD='***REDACTED***'; eval "$PASSWORD"` of it, whatever stands there.
HIDING = "PASSWORD='{}'; eval \"$PASSWORD\""
STARTED = "SELECT facts, content FROM events WHERE kind = 'tool_call.started' ORDER BY seq"
DAY_US = 86_400_000_000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("WORKSPACE_DIR", str(tmp_path / "workspace"))
    root = tmp_path / "opened"
    root.mkdir()
    return root


def gates(tmp_path: Path, *tools):
    roots = [tmp_path / "opened"]
    return open_gates(modes=["coding"], roots=roots, tools=tools, state_dir=tmp_path / "state")


async def started(gate) -> list[dict]:
    rows = await gate._runtime.database.read(lambda db: db.query(STARTED))
    return [merge_payload(*row) for row in rows]


async def test_two_commands_that_are_masked_alike_are_told_apart_and_can_be_shown(tmp_path, folder):
    hidden = [HIDING.format(f"echo evil-deed > {name}") for name in ("one.txt", "two.txt")]
    async with gates(tmp_path) as gate:
        session = await gate.session("coding")
        for command in hidden:
            assert (await session.call("bash", {"cmd": command})).ok
        first, second = await started(gate)
        sealed = gate._runtime.sealed
        shown = [sealed.opened(session.id, each["arguments_seal"]) for each in (first, second)]
    assert sorted(path.name for path in folder.iterdir()) == ["one.txt", "two.txt"]
    # The log shows the same of both, and yet says that they are not the same.
    assert first["arguments"] == second["arguments"]
    assert "evil-deed" not in str(first)
    assert first["arguments_seal"] != second["arguments_seal"]
    assert shown == [{"cmd": command} for command in hidden]


async def test_what_is_kept_is_proved_by_the_log_and_by_nothing_beside_it(tmp_path, folder):
    async with gates(tmp_path) as gate:
        session = await gate.session("coding")
        await session.call("bash", {"cmd": HIDING.format("echo evil-deed")})
        (event,) = await started(gate)
        (file,) = [path for path in (tmp_path / "state" / "sealed").rglob("*") if path.is_file()]
        assert sha256(file.read_bytes()).hexdigest() == event["arguments_seal"]
        assert file.stat().st_mode & 0o777 == 0o600
        # Who knows how the log is made cannot try words against it: there is more than the words in it.
        assert sha256(file.read_bytes()[32:]).hexdigest() != event["arguments_seal"]
        file.write_bytes(file.read_bytes().replace(b"evil-deed", b"good-deed"))
        assert gate._runtime.sealed.opened(session.id, event["arguments_seal"]) is None


async def test_what_is_shown_whole_is_not_kept_a_second_time(tmp_path, folder):
    async with gates(tmp_path) as gate:
        session = await gate.session("coding")
        await session.call("bash", {"cmd": "echo plain"})
        assert [each["arguments_seal"] for each in await started(gate)] == [""]
    assert not (tmp_path / "state" / "sealed").exists()


async def test_a_secret_in_a_file_lies_in_no_other_place(tmp_path, folder):
    """What was written is known by its hash, and it is in the file."""
    secret = "token: all-the-source-code-in-here-9"
    async with gates(tmp_path) as gate:
        session = await gate.session("coding")
        assert (await session.call("write_file", {"path": "a.txt", "content": secret})).ok
        (event,) = await started(gate)
    assert secret not in str(event)
    assert event["arguments_seal"] == ""
    state = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert [path for path in state if secret.encode() in path.read_bytes()] == []


async def test_where_it_cannot_be_kept_the_call_does_not_run(tmp_path, folder):
    async with gates(tmp_path) as gate:
        session = await gate.session("coding")
        (tmp_path / "state" / "sealed").write_text("in the way")
        with pytest.raises(AuditUnavailable):
            await session.call("bash", {"cmd": HIDING.format("touch evil.txt")})
        assert await started(gate) == []
    assert list(folder.iterdir()) == []


async def test_a_function_of_an_embedding_program_is_told_the_same_way(tmp_path, folder):
    given = []

    @tool(modes=["coding"], effect="special", switches=["shell"])
    def send(words: str) -> str:
        """Send words somewhere."""
        given.append(words)
        return "sent"

    async with gates(tmp_path, send) as gate:
        session = await gate.session("coding")
        await session.call("send", {"words": "token: all-the-source-code-in-here-9"})
        (event,) = await started(gate)
        assert gate._runtime.sealed.opened(session.id, event["arguments_seal"]) == {"words": given[0]}


async def test_it_goes_with_its_session_and_with_its_age(tmp_path, folder):
    async with gates(tmp_path) as gate:
        runtime, kept = gate._runtime, tmp_path / "state" / "sealed"
        old, deleted = await gate.session("coding"), await gate.session("coding")
        for session in (old, deleted):
            await session.call("bash", {"cmd": HIDING.format("echo evil-deed")})
        await open_agent_runtime(runtime).tasks.delete_session(deleted.id, who="test")
        await runtime.eraser.erase(deleted.id, who="operator")
        (left,) = [path for path in kept.rglob("*") if path.is_file()]
        os.utime(left, (1, 1))
        retention = RetentionSweeper(
            runtime.log, runtime.database, 1, forget_before=runtime.sealed.files.delete_before
        )
        await retention.sweep()
        assert not left.exists()
        assert await runtime.database.read(lambda db: verify(db).faults) == []


def test_the_operator_is_shown_it_at_the_command_line(tmp_path, folder):
    interlock = CliRunner(tmp_path)
    arguments = json.dumps({"cmd": HIDING.format("echo evil-deed > one.txt")})
    interlock("tool", "call", "bash", "--mode", "coding", "--root", "opened", "--args", arguments)
    session = interlock.json("sessions", "list", "--group", "all")[0]["id"]
    assert "evil-deed" not in interlock("events", "tree", session).stdout
    assert "echo evil-deed > one.txt" in interlock("events", "given", session, "2").stdout
    assert "does not start a tool call" in one_line_error(interlock, "events", "given", session, "1")
    for file in (tmp_path / "state" / "sealed").glob("*/*"):
        file.unlink()
    assert "no longer kept" in one_line_error(interlock, "events", "given", session, "2")
