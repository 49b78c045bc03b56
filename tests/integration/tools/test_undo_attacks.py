"""An undo where the tree is not what it was: nothing outside is touched."""

import shutil
import threading
from contextlib import suppress

import pytest

from interlock.infra.errors import NothingToUndo
from tests.integration.tools.undoing import left, rewritten, undo
from tests.integration.workbench import Workbench


async def test_nothing_outside_is_touched_when_folders_became_links(workbench: Workbench):
    """Somebody who can replace folders by links waits for a person to undo."""
    for name in ("created", "replaced", "deleted", "moved"):
        workbench.write(f"{name}/keep", "x")
    workbench.write("replaced/f", "one")
    workbench.write("deleted/f", "one")
    workbench.write("moved/f", "one")
    workbench.write("deleted/tree/f", "one")
    await workbench.ok("write_file", path="created/f", content="two")
    await rewritten(workbench, "replaced/f", "two")
    await workbench.ok("delete_file", path="deleted/f")
    await workbench.ok("delete_file", path="deleted/tree", recursive=True)
    await workbench.ok("move_file", source="moved/f", destination="to/f")
    for name in ("created", "replaced", "deleted", "moved", "to"):
        target = workbench.outside / name
        target.mkdir()
        if name not in {"deleted", "moved"}:
            (target / "f").write_text("two")
        shutil.rmtree(workbench.root / name)
        (workbench.root / name).symlink_to(target)
    outside = workbench.outside_state()
    report = await undo(workbench)
    assert len(left(report)) == 5
    assert workbench.outside_state() == outside


async def test_nothing_outside_is_touched_when_the_root_became_a_link(workbench: Workbench):
    await workbench.ok("write_file", path="f", content="two")
    workbench.write("g", "one")
    await workbench.ok("delete_file", path="g")
    shutil.rmtree(workbench.root)
    (workbench.outside / "f").write_text("two")
    workbench.root.symlink_to(workbench.outside)
    outside = workbench.outside_state()
    assert len((await undo(workbench)).outcomes) == 2
    assert workbench.outside_state() == outside
    workbench.root.unlink()


async def test_nothing_outside_is_touched_when_a_file_became_a_link(workbench: Workbench):
    workbench.write("replaced", "one")
    await workbench.ok("write_file", path="created", content="two")
    await rewritten(workbench, "replaced", "two")
    (workbench.outside / "f").write_text("two")
    for name in ("created", "replaced"):
        (workbench.root / name).unlink()
        (workbench.root / name).symlink_to(workbench.outside / "f")
    outside = workbench.outside_state()
    assert len(left(await undo(workbench))) == 2
    assert workbench.outside_state() == outside


async def attacked(bench: Workbench, rounds: int) -> int:
    """Changes and undoes while somebody swaps their folder for a link to the outside, again and again."""
    folder, link, other = (bench.root / name for name in ("d", "link", "other"))
    folder.mkdir()
    link.symlink_to(bench.outside)
    for name in ("f", "g", "t/f"):
        (bench.outside / name).parent.mkdir(exist_ok=True)
        (bench.outside / name).write_text("two")
    outside, is_over = bench.outside_state(), threading.Event()

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
                worked += (await bench.call(name, arguments)).ok
            if number % 3 == 2:
                with suppress(NothingToUndo):
                    await undo(bench)
    finally:
        is_over.set()
        swapping.join()
    assert bench.outside_state() == outside
    return worked


async def test_nothing_outside_is_touched_while_somebody_swaps_folders(workbench: Workbench):
    assert await attacked(workbench, 12)


@pytest.mark.full
async def test_nothing_outside_is_touched_however_long_somebody_swaps_folders(workbench: Workbench):
    assert await attacked(workbench, 600)


async def test_a_root_that_is_gone_is_told(workbench: Workbench):
    workbench.write("g", "one")
    await workbench.ok("delete_file", path="g")
    shutil.rmtree(workbench.root)
    (reason,) = [outcome.reason for outcome in (await undo(workbench)).outcomes]
    assert reason
    assert not workbench.root.exists()
