"""An undo where the tree is not what it was: nothing outside is touched."""

import shutil
import threading
from contextlib import suppress

import pytest

from interlock.core.errors import NothingToUndo
from tests.harness.tool_calls import ToolHarness
from tests.integration.tools.undoing import left, rewritten, undo


async def test_nothing_outside_is_touched_when_folders_became_links(harness: ToolHarness):
    """Somebody who can replace folders by links waits for a person to undo."""
    for name in ("created", "replaced", "deleted", "moved"):
        harness.write(f"{name}/keep", "x")
    harness.write("replaced/f", "one")
    harness.write("deleted/f", "one")
    harness.write("moved/f", "one")
    harness.write("deleted/tree/f", "one")
    await harness.ok("write_file", path="created/f", content="two")
    await rewritten(harness, "replaced/f", "two")
    await harness.ok("delete_file", path="deleted/f")
    await harness.ok("delete_file", path="deleted/tree", recursive=True)
    await harness.ok("move_file", source="moved/f", destination="to/f")
    for name in ("created", "replaced", "deleted", "moved", "to"):
        target = harness.outside / name
        target.mkdir()
        if name not in {"deleted", "moved"}:
            (target / "f").write_text("two")
        shutil.rmtree(harness.root / name)
        (harness.root / name).symlink_to(target)
    outside = harness.outside_state()
    report = await undo(harness)
    assert len(left(report)) == 5
    assert harness.outside_state() == outside


async def test_nothing_outside_is_touched_when_the_root_became_a_link(harness: ToolHarness):
    await harness.ok("write_file", path="f", content="two")
    harness.write("g", "one")
    await harness.ok("delete_file", path="g")
    shutil.rmtree(harness.root)
    (harness.outside / "f").write_text("two")
    harness.root.symlink_to(harness.outside)
    outside = harness.outside_state()
    assert len((await undo(harness)).outcomes) == 2
    assert harness.outside_state() == outside
    harness.root.unlink()


async def test_nothing_outside_is_touched_when_a_file_became_a_link(harness: ToolHarness):
    harness.write("replaced", "one")
    await harness.ok("write_file", path="created", content="two")
    await rewritten(harness, "replaced", "two")
    (harness.outside / "f").write_text("two")
    for name in ("created", "replaced"):
        (harness.root / name).unlink()
        (harness.root / name).symlink_to(harness.outside / "f")
    outside = harness.outside_state()
    assert len(left(await undo(harness))) == 2
    assert harness.outside_state() == outside


async def attacked(make_harness: ToolHarness, rounds: int) -> int:
    """Changes and undoes while somebody swaps their folder for a link to the outside, again and again."""
    folder, link, other = (make_harness.root / name for name in ("d", "link", "other"))
    folder.mkdir()
    link.symlink_to(make_harness.outside)
    for name in ("f", "g", "t/f"):
        (make_harness.outside / name).parent.mkdir(exist_ok=True)
        (make_harness.outside / name).write_text("two")
    outside, is_over = make_harness.outside_state(), threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            for source, destination in ((folder, other), (link, folder), (folder, link), (other, folder)):
                with suppress(OSError):
                    source.rename(destination)

    swapping = threading.Thread(target=swap)
    swapping.start()
    worked = 0
    try:
        for number in range(rounds):
            for name, arguments in (
                ("write_file", {"path": "d/f", "content": "two"}),
                ("write_file", {"path": "d/t/f", "content": "two", "mode": "append"}),
                ("move_file", {"source": "d/f", "destination": "d/g", "overwrite": True}),
                ("delete_file", {"path": "d/t", "recursive": True}),
                ("delete_file", {"path": "d/g"}),
            ):
                worked += (await make_harness.call(name, arguments)).ok
            if number % 3 == 2:
                with suppress(NothingToUndo):
                    await undo(make_harness)
    finally:
        is_over.set()
        swapping.join()
    assert make_harness.outside_state() == outside
    return worked


async def test_nothing_outside_is_touched_while_somebody_swaps_folders(harness: ToolHarness):
    assert await attacked(harness, 12)


@pytest.mark.full
async def test_nothing_outside_is_touched_however_long_somebody_swaps_folders(harness: ToolHarness):
    assert await attacked(harness, 600)


async def test_a_root_that_is_gone_is_told(harness: ToolHarness):
    harness.write("g", "one")
    await harness.ok("delete_file", path="g")
    shutil.rmtree(harness.root)
    (reason,) = [outcome.reason for outcome in (await undo(harness)).outcomes]
    assert reason
    assert not harness.root.exists()
