"""The disk of the files that tools work on runs full: what was there stays whole, and calls say why."""

import resource
from pathlib import Path

import pytest

from tests.faults.disks import mounting, small_disk
from tests.faults.test_full_state_disk import limited
from tests.harness.store import StoreHarness
from tests.harness.tool_calls import ToolHarness

OLD = "".join(f"line {number} of what was there\n" for number in range(400))
MUCH = "new " * 40_000
CHANGES = [
    ("write_file", {"path": "a.txt", "content": MUCH}),
    ("write_file", {"path": "made/on/the/way/b.txt", "content": MUCH}),
    ("edit_file", {"path": "a.txt", "find": "line 7 ", "replace": MUCH}),
]


@pytest.fixture
async def bench(sqlite_store: StoreHarness, tmp_path: Path):
    session = await sqlite_store.sessions.create(opened_by="test")
    with small_disk(tmp_path / "root", size="256k", inodes=100) as disk:
        bench = ToolHarness(sqlite_store, session.id, tmp_path)
        bench.disk = disk
        bench.write("a.txt", OLD)
        await bench.ok("read_file", path="a.txt")
        yield bench


async def refused(bench: ToolHarness, name: str, arguments: dict, reason: str) -> None:
    before = {path: path.read_bytes() for path in bench.root.rglob("*.txt")}
    entries = sorted(bench.root.iterdir())
    result = await bench.call(name, arguments)
    assert result.failure is not None, (name, arguments)
    assert result.failure.error_code.value == "EXECUTION_ERROR"
    assert reason in result.failure.message
    assert "Errno" not in result.failure.message
    assert {path: path.read_bytes() for path in bench.root.rglob("*.txt")} == before
    assert sorted(bench.root.iterdir()) == entries, "something half written was left behind"
    kinds = [kind for kind, _ in bench.events()[-2:]]
    assert kinds == ["tool_call.started", "tool_call.failed"]


@mounting
@pytest.mark.parametrize(("name", "arguments"), CHANGES)
@pytest.mark.parametrize("space", [0, 64 * 1024], ids=["none", "half"])
async def test_a_file_is_written_whole_or_stays_as_it_was(bench, name, arguments, space):
    bench.disk.fill(leaving=space)
    await refused(bench, name, dict(arguments), "the disk is full")
    bench.disk.free()
    await bench.ok(name, dict(arguments))


@mounting
async def test_without_a_name_for_a_new_file_everything_stays_as_it_was(bench):
    bench.disk.use_up_names()
    for name, arguments in CHANGES:
        await refused(bench, name, dict(arguments), "the disk is full")
    bench.disk.give_names_back()
    await bench.ok("write_file", path="a.txt", content="new\n")


@mounting
async def test_a_disk_that_became_read_only_is_told_as_such(bench):
    bench.disk.remount("ro")
    for name, arguments in (
        *CHANGES,
        ("delete_file", {"path": "a.txt"}),
        ("move_file", {"source": "a.txt", "destination": "b.txt"}),
    ):
        await refused(bench, name, dict(arguments), "is on a read-only file system")
    bench.disk.remount("rw")
    await bench.ok("delete_file", path="a.txt")


async def test_a_file_that_may_not_grow_stays_as_it_was(sqlite_store, tmp_path):
    """The system refuses the write with another error than a full disk: with a limit on the size."""
    session = await sqlite_store.sessions.create(opened_by="test")
    bench = ToolHarness(sqlite_store, session.id, tmp_path)
    bench.write("a.txt", OLD)
    await bench.ok("read_file", path="a.txt")
    # What is allocated ahead beside the store is not written to that far.
    store_bytes = sqlite_store.config.path.stat().st_size
    much = "x" * (store_bytes + 1_000_000)
    with limited(resource.RLIMIT_FSIZE, store_bytes + 500_000):
        await refused(*(bench, "write_file", {"path": "a.txt", "content": much}), "File too large")


@mounting
async def test_a_command_whose_output_cannot_be_kept_is_told_so(sqlite_store, tmp_path):
    session = await sqlite_store.sessions.create(opened_by="test")
    with small_disk(tmp_path / "state2", size="256k", inodes=100) as disk:
        bench = ToolHarness(sqlite_store, session.id, tmp_path)
        bench.outputs.files.directory = disk.path / "outputs"
        await bench.open_sandbox()
        disk.use_up_names()
        result = await bench.call("bash", cmd="echo hello > ran.txt")
        assert result.failure is not None
        assert "the disk of the state folder is full" in result.failure.message
        assert not (bench.root / "ran.txt").exists()
        disk.give_names_back()
        disk.fill()
        result = await bench.ok("bash", cmd="seq 1 40000; echo the end > ran.txt")
        assert result.meta["not_kept_bytes"] == len(b"".join(b"%d\n" % n for n in range(1, 40001)))
        assert (bench.root / "ran.txt").read_text() == "the end\n"
        disk.free()
        assert (await bench.ok("bash", cmd="echo hello")).stdout == "hello\n"
        await bench.backend.close()
