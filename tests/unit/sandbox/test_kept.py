"""What is kept of files that were changed: whole, private, bounded, and readable whatever happened."""

import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from interlock.core.session_files import BLOCK_BYTES
from interlock.sandbox.undo_store import (
    MAX_ENTRY_BYTES,
    ChangeAction,
    RecordedChange,
    SavedContentKind,
    UndoStore,
)

ROOM = 100 * BLOCK_BYTES


def change(session: str = "s", call: str = "c", **more) -> RecordedChange:
    values = {
        "action": ChangeAction.replaced,
        "root": "/ws",
        "parts": ("f",),
        "content": SavedContentKind.file,
    }
    return RecordedChange(session_id=session, call_id=call, **values | more)


def kept_in(folder: Path, max_bytes: int = ROOM) -> UndoStore:
    return UndoStore(folder / "kept", max_bytes=max_bytes)


def calls(kept: UndoStore, session: str = "s") -> list[str]:
    return [entry.change.call_id for entry in kept.entries(session)]


def content_of(entry) -> bytes:
    with entry.content() as stream:
        return stream.read()


def test_a_session_named_like_anothers_folder_sees_nothing_of_it(tmp_path):
    kept = kept_in(tmp_path)
    kept.keep(change("an/odd id", "theirs"), [b"x"])
    (folder,) = (path.name for path in (tmp_path / "kept").iterdir() if path.is_dir())
    assert calls(kept, folder) == []
    assert kept.find(folder) == []
    assert calls(kept, "an/odd id") == ["theirs"]


@pytest.mark.parametrize("spelled", [str, str.upper])
def test_a_session_named_like_anothers_folder_is_forgotten_without_it(tmp_path, spelled):
    kept = kept_in(tmp_path)
    kept.keep(change("an/odd id", "theirs"), [b"x"])
    (folder,) = (path.name for path in (tmp_path / "kept").iterdir() if path.is_dir())
    kept.keep(change(spelled(folder), "its own"), [b"y"])
    kept.files.delete_session(spelled(folder))
    assert calls(kept, spelled(folder)) == []
    assert calls(kept, "an/odd id") == ["theirs"]


def test_a_plain_id_is_its_folders_name_with_an_underscore_as_well(tmp_path):
    kept = kept_in(tmp_path)
    for session in ("s_1", "_s", "_" + "a" * 63, "_" + "a" * 65, "_" + "g" * 64):
        kept.keep(change(session), [b"x"])
        assert (tmp_path / "kept" / session).is_dir()


@pytest.mark.parametrize("parts", [("..", "f"), (".",), ("",), ("a/b",), ("/etc", "f")])
@pytest.mark.parametrize("name", ["parts", "from_parts"])
def test_an_entry_that_leads_elsewhere_is_none(tmp_path, name, parts):
    kept = kept_in(tmp_path)
    kept.keep(change(**{name: parts}), [b"x"])
    assert calls(kept) == []


def test_only_one_process_has_its_turn(tmp_path):
    """Two descriptors exclude each other as two processes do."""
    with kept_in(tmp_path).turn():
        other = os.open(tmp_path / "kept" / ".turn", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)


def test_what_is_kept_comes_back_newest_first(tmp_path):
    kept = kept_in(tmp_path)
    for number in range(5):
        kept.keep(change(call=f"c{number}"), [b"a\n", b"%d" % number])
    assert calls(kept_in(tmp_path)) == ["c4", "c3", "c2", "c1", "c0"]
    assert [content_of(entry) for entry in kept.entries("s")][-1] == b"a\n0"


def test_everything_about_a_change_comes_back(tmp_path):
    full = change(
        task="t",
        by_undo=True,
        action=ChangeAction.moved,
        root=os.fsdecode(b"/w\xff"),
        parts=(os.fsdecode(b"caf\xe9"), "new\nline", "日本"),
        from_root="/other",
        from_parts=(os.fsdecode(b"\x80"),),
        made_folders=2,
        before_sha256="b",
        after_sha256="a",
        permissions=0o751,
        owner=(5, 6),
        modified_ns=2**60,
        link_target=os.fsdecode(b"\xfe\n"),
        identity=(1, 2**63 - 1),
    )
    kept = kept_in(tmp_path)
    kept.keep(full)
    (entry,) = kept.entries("s")
    assert entry.change == full


def test_only_the_owner_may_look(tmp_path):
    before = os.umask(0)
    try:
        kept_in(tmp_path).keep(change(), [b"secret"])
    finally:
        os.umask(before)
    for path in (tmp_path / "kept").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o700


def test_with_no_room_at_all_nothing_is_kept(tmp_path):
    kept = kept_in(tmp_path, 0)
    assert not kept.is_on
    assert not kept.has_room_for(0)
    assert kept.keep(change(), [b"x"]) is None
    with kept.turn():
        pass
    kept.drop(None)
    kept.files.delete_session("s")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [".turn"]


def test_the_oldest_go_first(tmp_path):
    kept = kept_in(tmp_path)
    for number in range(30):
        kept.keep(change(session=f"s{number % 3}", call=f"c{number}"), [b"x" * 10 * BLOCK_BYTES])
    left = sorted((int(call[1:]) for n in range(3) for call in calls(kept, f"s{n}")), reverse=True)
    assert left == list(range(29, 29 - len(left), -1))
    assert 5 <= len(left) <= 9
    used = sum(path.stat().st_size for path in (tmp_path / "kept").rglob("*.kept"))
    assert used <= ROOM


def test_what_was_dropped_makes_room_again(tmp_path):
    """Entries of changes that failed once counted for ever, and pushed out what was still needed."""
    kept = kept_in(tmp_path)
    kept.keep(change(call="first"), [b"x"])
    for _ in range(50):
        kept.drop(kept.keep(change(call="failed"), [b"x" * 10 * BLOCK_BYTES]))
    assert calls(kept) == ["first"]


def test_small_entries_count_as_what_they_take_on_disk(tmp_path):
    kept = kept_in(tmp_path)
    for number in range(150):
        kept.keep(change(call=f"c{number}"))
    assert 90 <= len(calls(kept)) <= 100


def test_what_would_not_fit_is_known_before(tmp_path):
    assert kept_in(tmp_path).has_room_for(ROOM - BLOCK_BYTES)
    assert not kept_in(tmp_path).has_room_for(ROOM)
    huge = kept_in(tmp_path, 10 * MAX_ENTRY_BYTES)
    assert huge.has_room_for(MAX_ENTRY_BYTES)
    assert not huge.has_room_for(MAX_ENTRY_BYTES + 1)


def test_a_failure_while_keeping_leaves_nothing(tmp_path):
    def broken():
        yield b"x"
        raise OSError(5, "input/output error")

    kept = kept_in(tmp_path)
    with pytest.raises(OSError, match="input/output"):
        kept.keep(change(), broken())
    assert list((tmp_path / "kept" / "s").iterdir()) == []


def test_an_entry_appears_only_when_it_is_complete(tmp_path):
    kept = kept_in(tmp_path)

    def watched():
        yield b"x"
        assert calls(kept) == []
        yield b"y"

    kept.keep(change(), watched())
    assert calls(kept) == ["c"]


GARBAGE = {
    "empty": b"",
    "no json": b"hello\n",
    "a list": b"[1]\n",
    "null": b"null\n",
    "a number": b"5\n",
    "no line end": b'{"a":1}',
    "other keys": b'{"session_id":"s","call_id":"x"}\n',
    "bytes": os.urandom(100),
    "long": b"x" * 1_000_000,
    "deep": b"[" * 10_000,
}


def test_whatever_lies_in_the_folder_is_passed_over(tmp_path):
    kept = kept_in(tmp_path)
    entry = kept.keep(change(), [b"x"])
    assert entry is not None
    folder = tmp_path / "kept" / "s"
    good = orjson.loads(entry.file.read_bytes().splitlines()[0])
    twisted = {
        "no action": good | {"action": "burned"},
        "no content": good | {"content": 5},
        "odd hex": good | {"parts": ["zz"]},
        "parts a text": good | {"parts": "66"},
        "out": good | {"parts": [b"..".hex(), b"etc".hex()]},
        "slash": good | {"parts": [b"a/b".hex()]},
        "number": good | {"session_id": 5},
        "other session": good | {"session_id": "other"},
        "null": good | {"root": None},
    }
    contents = list(GARBAGE.values()) + [orjson.dumps(value) + b"\n" for value in twisted.values()]
    for number, content in enumerate(contents):
        (folder / f"{number:020d}-00000000.kept").write_bytes(content)
    (folder / "foo.kept").write_bytes(b"x")
    (folder / ("9" * 20 + "-00000000.kept")).write_bytes(b"x")
    (folder / "00000000000000000777-00000000.kept").mkdir()
    os.mkfifo(folder / "00000000000000000778-00000000.kept")
    (tmp_path / "kept" / "file").write_bytes(b"x")
    assert next(found.change for found in kept.entries("s")) == entry.change
    kept.keep(change(call="later"))
    assert calls(kept)[0] == "later"
    assert [entry.change.call_id for entry in kept.find("later")] == ["later"]


def test_a_clock_that_goes_back_does_not_change_the_order(tmp_path, monkeypatch):
    kept = kept_in(tmp_path)
    kept.keep(change(call="a"))
    monkeypatch.setattr("time.time_ns", lambda: 1_000)
    kept.keep(change(call="b"))
    kept.keep(change(call="c"))
    assert calls(kept) == ["c", "b", "a"]


def test_a_deleted_session_leaves_nothing(tmp_path):
    kept = kept_in(tmp_path)
    kept.keep(change("a"), [b"x"])
    kept.keep(change("b"), [b"x"])
    (tmp_path / "kept" / "a" / "00000000000000000001-00000000.kept").write_bytes(b"unreadable secret")
    (tmp_path / "kept" / "a" / ".00000002.interlock-new").write_bytes(b"half a secret")
    kept.files.delete_session("a")
    kept.files.delete_session("never seen")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["b"]


@pytest.mark.parametrize(
    "session", ["..", "../other", "a/b", ".", "", "/etc", "x" * 300, "日本", "\ud800", ".turn"]
)
def test_no_session_id_leads_out_of_the_folder(tmp_path, session):
    kept = kept_in(tmp_path)
    victim = tmp_path / "other"
    victim.mkdir()
    (victim / "f").write_text("x")
    kept.keep(change("normal"))
    assert list(kept.entries(session)) == []
    kept.find(session)
    if session != "\ud800":
        kept.keep(change(session), [b"x"])
        assert calls(kept, session) == ["c"]
    kept.files.delete_session(session)
    assert (victim / "f").exists()
    assert calls(kept, "normal") == ["c"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "other"]


def test_a_session_a_task_a_call_and_an_undo_are_found(tmp_path):
    kept = kept_in(tmp_path)
    kept.keep(change("s1", "c1", task="t"))
    kept.keep(change("s2", "c2", task="t"))
    kept.keep(change("s1", "undo_1", task="t", by_undo=True))
    kept.keep(change("s1", "c3"))

    def found(identity: str) -> list[str]:
        return [entry.change.call_id for entry in kept.find(identity)]

    assert found("s1") == ["c3", "c1"]
    assert found("t") == ["c2", "c1"]
    assert found("c2") == ["c2"]
    assert found("undo_1") == ["undo_1"]
    assert found("nothing") == found("") == []


def test_of_a_known_session_nothing_else_is_read(tmp_path, monkeypatch):
    """Else each undo takes longer, the more was kept of others."""
    kept = kept_in(tmp_path)
    kept.keep(change("s1", "c1", task="t"))
    kept.keep(change("s1", "c2", task="t.1"))
    kept.keep(change("s1", "c3", task="u"))
    kept.keep(change("s1", "undo_1", task="t", by_undo=True))
    kept.keep(change("s2", "c4", task="t"))
    read, real = [], Path.open

    def reading(path, *arguments):
        read.append(path.parent.name)
        return real(path, *arguments)

    monkeypatch.setattr(Path, "open", reading)
    assert [entry.change.call_id for entry in kept.find("t", "s1")] == ["c2", "c1"]
    assert kept.find("t", "s3") == []
    assert set(read) == {"s1"}


def test_a_call_cannot_hide_behind_the_name_of_an_undo(tmp_path):
    """Who names a call is not who may say that it was an undo."""
    kept = kept_in(tmp_path)
    kept.keep(change("s", "undo_mine"))
    assert [entry.change.call_id for entry in kept.find("s")] == ["undo_mine"]


WRITER = """
import sys
from pathlib import Path
from interlock.sandbox.undo_store import ChangeAction, RecordedChange, SavedContentKind, UndoStore
kept = UndoStore(Path(sys.argv[1]), max_bytes=int(sys.argv[3]))
for number in range(100):
    with kept.turn():
        change = RecordedChange(session_id="s", call_id=f"{sys.argv[2]}{number}",
                        action=ChangeAction.replaced, root="/ws", parts=("f",),
                        content=SavedContentKind.file)
        kept.keep(change, [b"x" * 5000])
"""


def test_two_processes_share_the_room_and_lose_nothing(tmp_path):
    def both(max_bytes: int) -> UndoStore:
        arguments = [sys.executable, "-c", WRITER, str(tmp_path / "kept")]
        children = [subprocess.Popen([*arguments, name, str(max_bytes)]) for name in "ab"]
        assert [child.wait() for child in children] == [0, 0]
        return kept_in(tmp_path, max_bytes)

    kept = both(1000 * BLOCK_BYTES)
    for name in "ab":
        own = [int(call[1:]) for call in calls(kept) if call[0] == name]
        assert own == list(range(99, -1, -1))
    kept = both(ROOM)
    used = sum(path.stat().st_size for path in (tmp_path / "kept").rglob("*.kept"))
    assert used <= ROOM * 1.2
