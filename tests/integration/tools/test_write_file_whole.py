"""A write happens whole or not at all: full disks, kills, time-outs, cancelled calls."""

import asyncio
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from interlock.sandbox.undo_store import UndoStore
from interlock.tools.threads import CancelSignal
from tests.harness.tool_calls import ToolHarness
from tests.integration.tools.mounts import tmpfs
from tests.integration.tools.writing import leftovers, read_then
from tests.unit.sandbox.conftest import open_descriptors

# -- all or nothing --


async def test_a_full_disk_leaves_the_old_file_whole(harness: ToolHarness):
    with tmpfs(harness.root / "small", "64k"):
        file = harness.write("small/f", "old")
        await harness.ok("read_file", path="small/f")
        result = await harness.call("write_file", path="small/f", content="x" * 100_000)
        assert "disk is full" in result.failure.message
        assert await harness.refused("write_file", path="small/f", content="x" * 100_000, mode="append")
        assert await harness.refused("write_file", path="small/a/b/n", content="x" * 100_000)
        assert file.read_text() == "old"
        assert [path.name for path in (harness.root / "small").iterdir()] == ["f"]
        assert not list(harness.kept.entries(harness.session_id))


async def test_a_full_state_disk_stops_the_change(harness: ToolHarness, tmp_path):
    """What cannot be kept is not changed."""
    file = harness.write("f", "old" * 30_000)
    await harness.pages("read_file", path="f")
    with tmpfs(tmp_path / "state" / "kept", "64k"):
        assert await harness.refused("write_file", path="f", content="new")
        assert file.read_text() == "old" * 30_000
        assert not list((tmp_path / "state" / "kept").rglob("*.kept"))
        assert not list((tmp_path / "state" / "kept").rglob("*.interlock-new"))


WRITER = """
import hashlib, itertools, sys
from pathlib import Path
from interlock.sandbox.file_changer import FileChanger, ChangeOrigin
from interlock.sandbox.file_io import open_file_in
from interlock.sandbox.undo_store import UndoStore
from interlock.sandbox.paths import PathAccess, PathResolver
from interlock.sandbox.profile import SandboxProfile

root, state = Path(sys.argv[1]), Path(sys.argv[2])
territory = PathResolver(SandboxProfile((root,), (root,)))
changes = FileChanger(UndoStore(state, max_bytes=1 << 20))
place = territory.find("f", PathAccess.write)
sys.stdout.write("up\\n")
sys.stdout.flush()
for number in itertools.count(int(sys.argv[3])):
    data = (b"%08d" % number) * 4000
    with territory.parent(place) as parent, open_file_in(parent.descriptor, "f", "f") as file:
        changes.replace(
            parent, place, file, iter((data[:7000], data[7000:])),
            before_sha256=file.sha256(lambda: None), after_sha256=hashlib.sha256(data).hexdigest(),
            origin=ChangeOrigin("s", f"call_{number}", None), commit=lambda: None,
        )
"""


def until_replaced(file: Path) -> None:
    was, end = file.stat().st_ino, time.monotonic() + 30
    while file.stat().st_ino == was:
        assert time.monotonic() < end, "nothing is written"


@pytest.mark.parametrize("times", [12, pytest.param(400, marks=pytest.mark.full)])
def test_a_kill_leaves_the_old_file_or_the_new_one(tmp_path, times):
    root, state = tmp_path / "root", tmp_path / "kept"
    root.mkdir()
    file = root / "f"
    file.write_bytes(b"00000000" * 4000)
    found: set[bytes] = set()
    for round_number in range(times):
        # No two contents are alike, so that a mixture of two would be seen.
        first = str(round_number * 100_000 + 1)
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(root), str(state), first], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        # After a different number of changes each time, at whatever point of the next the child is by then.
        for _ in range(round_number % 4):
            until_replaced(file)
        for _ in range(round_number % 13 * 40):
            file.stat()
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        found.add(file.read_bytes())
        for entry in UndoStore(state, max_bytes=1 << 20).entries("s"):
            with entry.content() as content:
                found.add(content.read())
    assert [data[:8] for data in found if data != data[:8] * 4000] == []
    assert len(found) > times / 2


# -- time-out and cancel --


async def test_a_call_that_runs_out_of_time_has_no_effect_afterwards(harness: ToolHarness):
    file = harness.write("big", b"x" * 60_000_000)
    result = await harness.call("write_file", path="big", content="end", mode="append", timeout=0.01)
    assert result.failure is not None
    assert result.failure.error_code.value == "TIMEOUT"
    assert file.stat().st_size == 60_000_000
    assert not leftovers(harness)
    assert not list(harness.kept.entries(harness.session_id))


async def test_a_cancelled_call_happened_or_did_not(harness: ToolHarness):
    """Whenever the cancellation comes, the log tells the truth about the file."""
    file = harness.write("f", b"x" * 3_000_000)
    outcomes = set()
    for attempt in range(30):
        size = file.stat().st_size
        task = asyncio.ensure_future(harness.call("write_file", path="f", content="e", mode="append"))
        for _ in range(attempt):
            await asyncio.sleep(0)
            await asyncio.to_thread(int)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        kind, _ = harness.last_event()
        happened = kind == "tool_call.completed"
        outcomes.add(happened)
        assert file.stat().st_size == size + happened
    assert not leftovers(harness)


@pytest.mark.parametrize("happens", [True, False])
async def test_a_call_that_is_cancelled_at_its_point_of_no_return_is_told_as_it_went(
    harness: ToolHarness, monkeypatch, happens
):
    """Cancelled right behind that point it is done, right before it nothing is; the log says which."""
    file, loop = harness.write("f", "old\n"), asyncio.get_running_loop()
    begin_effect = CancelSignal.begin_effect

    def cancelling(signal: CancelSignal) -> None:
        if happens:
            begin_effect(signal)
        loop.call_soon_threadsafe(task.cancel)
        end = time.monotonic() + 20
        while not signal.is_set and time.monotonic() < end:
            time.sleep(0.001)
        if not happens:
            begin_effect(signal)

    monkeypatch.setattr(CancelSignal, "begin_effect", cancelling)
    task = asyncio.ensure_future(harness.call("write_file", path="f", content="new\n", mode="append"))
    with pytest.raises(asyncio.CancelledError):
        await task
    kind, fields = harness.last_event()
    if happens:
        assert (file.read_text(), kind) == ("old\nnew\n", "tool_call.completed")
    else:
        assert (file.read_text(), kind, fields["error_code"]) == ("old\n", "tool_call.failed", "CANCELLED")
    assert not leftovers(harness)


async def test_additions_at_the_same_time_are_all_there(harness: ToolHarness):
    file = harness.write("log", "")
    calls = [
        harness.call("write_file", path="log", content=f"{number}\n", mode="append") for number in range(40)
    ]
    results = await asyncio.gather(*calls)
    assert [result.failure for result in results if result.failure] == []
    assert sorted(map(int, file.read_text().split())) == list(range(40))


async def test_no_descriptor_stays_open(harness: ToolHarness):
    harness.write("f", "x")
    await read_then(harness, "f", "y")
    before = open_descriptors()
    for _ in range(5):
        await read_then(harness, "f", "z")
        await harness.ok("write_file", path="f", content="z", mode="append")
        await harness.refused("write_file", path="f/g", content="z")
        await harness.refused("write_file", path=".", content="z")
        (harness.root / "n").unlink(missing_ok=True)
        await harness.ok("write_file", path="n", content="z")
    assert open_descriptors() == before
