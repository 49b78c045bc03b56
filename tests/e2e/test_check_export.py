"""The example that checks an export by itself: who has the file needs neither Interlock nor its word."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from tests.harness.cli import CliRunner

EXAMPLE = Path(__file__).parents[2] / "examples" / "check_export.py"


def check(file, *arguments):
    """In an interpreter that has nothing installed."""
    program = [sys.executable, "-I", "-S", EXAMPLE, file, *arguments]
    return subprocess.run(program, capture_output=True, text=True)


@pytest.fixture(scope="module")
def interlock(tmp_path_factory):
    return CliRunner(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def session(interlock):
    """The export of a session in which something was written, read and refused."""
    root = interlock.home / "root"
    root.mkdir()
    interlock.variables["TOOL_ALLOWED_ROOTS"] = str(root)
    calls = [
        ("write_file", {"path": "a.txt", "content": "words that count\n"}),
        ("read_file", {"path": "a.txt"}),
        ("write_file", {"path": "../b.txt", "content": "outside"}),
    ]
    script = [{"tool_calls": [{"name": name, "arguments": arguments}]} for name, arguments in calls]
    interlock.variables["MODEL"] = "scripted:" + json.dumps([*script, {"msg": "done, and said so"}])
    interlock("exec", "do it", "--mode", "coding", "--root", str(root))
    (entry,) = interlock.json("sessions", "list", "--group", "all")
    file = interlock.home / "session.jsonl"
    interlock("sessions", "export", entry["id"], "--out", str(file))
    return file


def told_of(file, changed):
    tampered = file.with_name("tampered.jsonl")
    tampered.write_bytes(b"".join(changed))
    done = check(tampered)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def test_an_export_that_nobody_touched_is_whole(session):
    done = check(session)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in session.read_bytes().splitlines()]
    events = [line for line in lines if line["type"] == "event"]
    messages = sum(line["type"] == "message" for line in lines)
    assert f"whole: {len(events)} events in 1 streams, {messages} messages" in done.stdout
    assert events[-1]["hash"] in done.stdout


def swap(old, new):
    return lambda line: line.replace(old, new)


# Which lines are changed, by a word in them; how; and what is told then.
TAMPERED = {
    "content": ("event", b"words that count", swap(b"count", b"lie"), "its content was changed"),
    "message": ("message", b"said so", swap(b"said so", b"hid it"), "its message was changed"),
    "facts": (
        *("event", b"tool_call.denied"),
        swap(b"write_file", b"read_files"),
        "its header or its facts were changed",
    ),
    "header": (
        "event",
        b"tool_call.started",
        swap(b".started", b".stopped"),
        "its header or its facts were changed",
    ),
    "hash": ("event", b"task.started", swap(b'"prev_hash":"', b'"prev_hash":"0'), "it does not follow"),
    "left out": ("event", b"tool_call.completed", lambda line: b"", "is missing"),
    "twice": ("event", b"tool_call.completed", lambda line: line * 2, "it stands there twice"),
    "no message": ("message", b'"role":"user"', lambda line: b"", "its message is missing"),
    "no messages": ("message", b"", lambda line: b"", "its message is missing"),
    "a message more": (
        *("message", b'"role":"user"'),
        lambda line: line + line.replace(b'"seq":2,', b'"seq":1,'),
        "no event tells of it",
    ),
    "another first": (
        *("message", b'"role":"user"'),
        lambda line: line.replace(b"do it", b"do evil") + line,
        "stands there twice",
    ),
    "a name twice": (
        *("event", b"tool_call.denied"),
        swap(b',"cursor"', b',"content":null,"cursor"'),
        "the same name twice",
    ),
    "two sessions": ("session", b"", lambda line: line + line.replace(b"s_", b"t_"), "two sessions"),
    "not ours": (
        "event",
        b"session.created",
        swap(b'"type":"event"', b'"type":"rumour"'),
        "neither a session",
    ),
    "no JSON": ("event", b"task.finished", lambda line: line[:-9], "is not JSON"),
    "no export": ("event", b"session.created", swap(b'"seq"', b'"number"'), "not the form of an export"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_every_change_of_it_is_told(session, name):
    kind, word, change, words = TAMPERED[name]
    lines = session.read_bytes().splitlines(keepends=True)
    meant = {line for line in lines if json.loads(line)["type"] == kind and word in line}
    assert meant
    assert words in told_of(session, [change(line) if line in meant else line for line in lines])


def chained(previous, facts, **header):
    """The line of an event as Interlock writes it, after the one with that hash."""
    names = ("id", "time_us", "stream", "seq", "task", "parent", "kind")
    header = {name: header.get(name) for name in names}
    hashed = bytes.fromhex(previous) + orjson.dumps(list(header.values()))
    hashed += hashlib.sha256(facts).digest() + bytes(32)
    told = {"facts": facts.decode(), "content": None, "salt": None, "content_hash": None}
    event = {"type": "event", **header, **told, "prev_hash": previous}
    return orjson.dumps(event | {"hash": hashlib.sha256(hashed).hexdigest()}) + b"\n"


def test_numbers_that_libraries_spell_differently_are_no_change(tmp_path):
    facts = orjson.dumps({"tiny": 1e-7, "large": 1e22, "content_hash": "x", "facts": {}})
    assert facts != json.dumps(json.loads(facts), separators=(",", ":")).encode()
    file = tmp_path / "one.jsonl"
    file.write_bytes(chained("0" * 64, facts, id="a", time_us=1, stream="s", seq=1, kind="k"))
    assert check(file).stdout.startswith("whole: 1 events")


@pytest.fixture(scope="module")
def everything(interlock, session):
    """All events, an anchor over them, and another session that was erased since."""
    other = interlock.json("tool", "call", "current_time", "--args", "{}")["session_id"]
    anchor = interlock("events", "anchor").stdout.splitlines()[0]
    interlock("sessions", "erase", other, "--yes")
    file = interlock.home / "everything.jsonl"
    interlock("events", "export", "--out", str(file))
    return file, anchor


def test_all_events_are_held_to_an_anchor(everything):
    file, anchor = everything
    done = check(file, "--anchor", anchor)
    assert (done.returncode, done.stderr) == (0, "")
    events = [json.loads(line) for line in file.read_bytes().splitlines()]
    streams = {event["stream"] for event in events}
    erased = sum(event["content"] is None and event["content_hash"] is not None for event in events)
    assert erased > 0
    assert f"in {len(streams)} streams, 0 messages, 1 checkpoints, {erased} with" in done.stdout
    # The hash follows the number; a key and a signature follow it.
    before, chained, *signed = anchor.rsplit(":", 3)
    other = ":".join((before, "0" * 64 if chained != "0" * 64 else "1" * 64, *signed))
    assert "is not in this file" in check(file, "--anchor", other).stderr
    assert "not an anchor" in check(file, "--anchor", "none").stderr


def test_what_was_cut_off_or_emptied_behind_a_checkpoint_is_told(everything, session):
    file, _ = everything
    lines = file.read_bytes().splitlines(keepends=True)
    stream = json.loads(session.read_bytes().splitlines()[0])["id"]
    of_session = [index for index, line in enumerate(lines) if json.loads(line)["stream"] == stream]
    last = of_session[-1]
    assert "the end was cut off" in told_of(file, [*lines[:last], *lines[last + 1 :]])
    assert "the end was cut off" in told_of(
        file, (line for line in lines if stream.encode() not in line[:200])
    )
    emptied = next(index for index in of_session if json.loads(lines[index])["content"] is not None)
    lines[emptied] = orjson.dumps(json.loads(lines[emptied]) | {"content": None, "salt": None}) + b"\n"
    assert "nothing says that it was erased" in told_of(file, lines)


def test_a_forged_record_of_an_erasure_excuses_no_missing_facts(everything):
    file, _ = everything
    events = [json.loads(line) for line in file.read_bytes().splitlines()]
    system = [event for event in events if event["stream"] == "system"]
    (checkpoint,) = (event for event in system if event["kind"] == "log.checkpoint")
    number = checkpoint["seq"]
    record = {"of": "system", "before_us": 2**60, "ranges": [[number, number]], "events": 1}
    seq = system[-1]["seq"] + 1
    forged = chained(
        *(system[-1]["hash"], orjson.dumps(record)),
        id="f",
        time_us=2**59,
        stream="system",
        seq=seq,
        kind="log.erased",
    )
    checkpoint["facts"] = "{}"
    assert "not the form of an export" in told_of(
        file, [*(orjson.dumps(event) + b"\n" for event in events), forged]
    )
