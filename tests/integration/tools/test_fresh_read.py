"""Nothing is overwritten or edited that this session has not seen as it is (DESIGN section 6)."""

import os

import pytest

from tests.conftest import Store
from tests.integration.workbench import Workbench


async def another_session(store: Store) -> str:
    return (await store.sessions.create(opened_by="test")).id


def change_unnoticed(file, content: str) -> None:
    """As somebody would who does not want it to be seen: the size and the time stay."""
    was = file.stat()
    assert len(content.encode()) == was.st_size
    file.write_text(content)
    os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))


async def overwrite(bench: Workbench, path: str = "f", **more) -> str | None:
    result = await bench.call("write_file", path=path, content="new", **more)
    return result.failure and result.failure.error_code.value


async def edit(bench: Workbench, find: str = "o", path: str = "f", **more) -> str | None:
    result = await bench.call("edit_file", path=path, find=find, replace="N", **more)
    return result.failure and result.failure.error_code.value


@pytest.mark.parametrize("change", [overwrite, edit])
async def test_a_file_that_was_not_read_is_not_changed(workbench: Workbench, change):
    file = workbench.write("f", "old")
    assert await change(workbench) == "READ_REQUIRED"
    assert file.read_text() == "old"


@pytest.mark.parametrize("change", [overwrite, edit])
async def test_a_file_that_was_read_is_changed(workbench: Workbench, change):
    workbench.write("f", "old")
    await workbench.ok("read_file", path="f")
    assert await change(workbench) is None


@pytest.mark.parametrize("change", [overwrite, edit])
@pytest.mark.parametrize("now", ["OLD", "older", "ol", "", "x" * 100])
async def test_a_change_by_somebody_else_is_noticed(workbench: Workbench, change, now):
    file = workbench.write("f", "old")
    await workbench.ok("read_file", path="f")
    file.write_text(now)
    assert await change(workbench) == "STALE_READ"
    assert file.read_text() == now
    await workbench.ok("read_file", path="f")
    assert await change(workbench) in {None, "EXECUTION_ERROR"}


@pytest.mark.parametrize("change", [overwrite, edit])
async def test_a_change_that_keeps_size_and_time_is_noticed(workbench: Workbench, change):
    file = workbench.write("f", "old")
    await workbench.ok("read_file", path="f")
    change_unnoticed(file, "odd")
    assert await change(workbench) == "STALE_READ"


async def test_a_file_that_was_changed_and_changed_back_is_as_it_was_read(workbench: Workbench):
    file = workbench.write("f", "old")
    await workbench.ok("read_file", path="f")
    file.write_text("other")
    file.write_text("old")
    assert await overwrite(workbench) is None


async def test_another_sessions_read_does_not_count(workbench: Workbench):
    workbench.write("f", "old")
    other = await another_session(workbench.store)
    await workbench.ok("read_file", path="f", session=other)
    assert await overwrite(workbench) == "READ_REQUIRED"
    assert await overwrite(workbench, session=other) is None
    assert await overwrite(workbench) == "READ_REQUIRED"


async def test_a_write_of_another_session_makes_a_read_stale(workbench: Workbench):
    workbench.write("f", "old")
    other = await another_session(workbench.store)
    for session in (other, workbench.session_id):
        await workbench.ok("read_file", path="f", session=session)
    assert await overwrite(workbench, session=other) is None
    assert await overwrite(workbench) == "STALE_READ"


async def test_what_a_session_wrote_it_knows(workbench: Workbench):
    await workbench.ok("write_file", path="f", content="one")
    assert await overwrite(workbench) is None
    assert await overwrite(workbench) is None
    assert await edit(workbench, "new") is None
    await workbench.ok("write_file", path="f", content="\nmore", mode="append")
    assert await overwrite(workbench) is None


async def test_a_failed_call_proves_nothing(workbench: Workbench):
    workbench.write("f", "old")
    await workbench.refused("read_file", path="f", offset=100)
    await workbench.refused("edit_file", path="f", find="o", replace="x")
    assert await overwrite(workbench) == "READ_REQUIRED"


async def test_pages_that_together_cover_the_file_count(workbench: Workbench):
    text = "".join(f"line {number}\n" for number in range(1000))
    workbench.write("f", text)
    await workbench.ok("read_file", path="f", line_count=400)
    assert await overwrite(workbench) == "READ_REQUIRED"
    await workbench.ok("read_file", path="f", start_line=701)
    assert await overwrite(workbench) == "READ_REQUIRED"
    await workbench.ok("read_file", path="f", start_line=401, line_count=300)
    assert await overwrite(workbench) is None


async def test_pages_of_a_file_too_large_to_be_read_at_once_count(workbench: Workbench):
    """Then each page has a hash of its own. Such a file can be edited once the read limit is higher."""
    workbench.narrow(read=1000)
    file = workbench.write("f", "".join(f"line {number:04}\n" for number in range(500)))
    pages = await workbench.pages("read_file", path="f")
    assert len(pages) > 3
    assert await edit(workbench, "line 0002") == "LIMIT_EXCEEDED"
    workbench.narrow()
    change_unnoticed(file, file.read_text().replace("line 0300", "LINE 0300"))
    assert await overwrite(workbench) == "READ_REQUIRED"
    assert await edit(workbench, "line 0300") == "EXECUTION_ERROR"
    assert await edit(workbench, "LINE 0300") == "READ_REQUIRED"
    assert await edit(workbench, "line 0002") is None
    workbench.narrow(read=1000)
    await workbench.pages("read_file", path="f")
    assert await overwrite(workbench) is None


async def test_only_what_was_read_may_be_edited(workbench: Workbench):
    workbench.write("f", "".join(f"line {number:04}\n" for number in range(1000)))
    await workbench.ok("read_file", path="f", line_count=10)
    assert await edit(workbench, "line 0500") == "READ_REQUIRED"
    assert await edit(workbench, "line 0009\nline 0010") == "READ_REQUIRED"
    assert await edit(workbench, "line 00", all=True) == "READ_REQUIRED"
    assert await edit(workbench, "line 0009\n") is None


async def test_an_edit_far_away_does_not_need_the_rest(workbench: Workbench):
    file = workbench.write("f", "".join(f"line {number:04}\n" for number in range(1000)))
    await workbench.ok("read_file", path="f", start_line=501, line_count=2)
    assert await edit(workbench, "line 0500") is None
    assert await edit(workbench, "line 0501") is None
    assert await edit(workbench, "line 0502") == "READ_REQUIRED"
    assert file.read_text().splitlines()[500] == "N"


@pytest.mark.parametrize("change", [overwrite, edit])
async def test_a_read_under_another_name_of_the_same_place_counts(workbench: Workbench, change):
    workbench.write("d/f", "old")
    (workbench.root / "link").symlink_to("d/f")
    (workbench.root / "folder").symlink_to("d")
    names = ["link", "folder/f", "d/../d/./f", str(workbench.root / "d/f"), "d//f"]
    for name in names:
        workbench.write("d/f", f"old {names.index(name)}")
        await workbench.ok("read_file", path=name)
        assert await change(workbench, path=names[names.index(name) - 1]) is None


async def test_a_link_that_points_elsewhere_now_is_another_file(workbench: Workbench):
    workbench.write("a", "same")
    other = workbench.write("b", "other")
    link = workbench.root / "link"
    link.symlink_to("a")
    await workbench.ok("read_file", path="link")
    link.unlink()
    link.symlink_to("b")
    assert await overwrite(workbench, "link") == "READ_REQUIRED"
    assert other.read_text() == "other"


async def test_append_create_move_and_delete_need_no_read(workbench: Workbench):
    workbench.write("f", "old")
    await workbench.ok("write_file", path="f", content="er", mode="append")
    await workbench.ok("write_file", path="n", content="new")
    await workbench.ok("move_file", source="f", destination="g")
    files = {path.name: path.read_text() for path in workbench.root.iterdir()}
    assert files == {"g": "older", "n": "new"}
    await workbench.ok("delete_file", path="g")
    assert [path.name for path in workbench.root.iterdir()] == ["n"]


async def test_what_was_appended_is_known_and_the_rest_is_not(workbench: Workbench):
    workbench.write("f", "secret plan\n")
    await workbench.ok("write_file", path="f", content="mine\n", mode="append")
    assert await edit(workbench, "mine") is None
    assert await edit(workbench, "plan") == "READ_REQUIRED"
    assert await overwrite(workbench) == "READ_REQUIRED"


async def test_a_file_that_went_and_came_back_has_to_be_read_again(workbench: Workbench):
    workbench.write("f", "old")
    await workbench.ok("read_file", path="f")
    await workbench.ok("delete_file", path="f")
    workbench.write("f", "old")
    assert await overwrite(workbench) == "READ_REQUIRED"


async def test_a_moved_file_has_to_be_read_under_its_new_name(workbench: Workbench):
    workbench.write("f", "old")
    await workbench.ok("read_file", path="f")
    await workbench.ok("move_file", source="f", destination="g")
    assert await overwrite(workbench, "g") == "READ_REQUIRED"
    await workbench.ok("read_file", path="g")
    assert await overwrite(workbench, "g") is None


async def test_an_undo_makes_what_was_known_stale(workbench: Workbench):
    await workbench.ok("write_file", path="f", content="one")
    await workbench.ok("write_file", path="f", content="two")
    await workbench.undo.take_back(f"call_{workbench._count}", who="test")
    assert await overwrite(workbench) == "STALE_READ"


async def test_a_read_is_remembered_over_a_long_session(workbench: Workbench):
    """The log is looked through from its end, however much came after."""
    workbench.write("f", "old")
    await workbench.ok("read_file", path="f")
    for _ in range(250):
        await workbench.ok("current_time")
    assert await overwrite(workbench) is None


@pytest.mark.parametrize("path", ["ünï 日本 😀.txt", 'quo"te\\.txt', "new\nline", "token=x"])
async def test_any_name_can_be_read_and_then_written(workbench: Workbench, path):
    workbench.write(path, "old")
    assert await overwrite(workbench, path) == "READ_REQUIRED"
    await workbench.ok("read_file", path=path)
    assert await edit(workbench, "old", path) is None
    assert await overwrite(workbench, path) is None
    assert (workbench.root / path).read_text() == "new"


async def test_a_read_counts_below_a_folder_whose_name_is_no_text(workbench: Workbench):
    """The log holds such a name in another spelling than the system does."""
    file = workbench.write(os.fsdecode(b"caf\xe9/f"), "old")
    (workbench.root / "link").symlink_to(os.fsdecode(b"caf\xe9"))
    assert await overwrite(workbench, "link/f") == "READ_REQUIRED"
    await workbench.ok("read_file", path="link/f")
    assert await edit(workbench, "o", "link/f") is None
    assert file.read_text() == "Nld"


async def test_a_change_between_judging_and_writing_is_noticed(workbench: Workbench, monkeypatch):
    file = workbench.write("f", "old")
    await workbench.ok("read_file", path="f")
    real = workbench.kept.keep

    def late(change, pieces):
        kept = real(change, pieces)
        change_unnoticed(file, "odd")
        return kept

    monkeypatch.setattr(workbench.kept, "keep", late)
    for change in (overwrite, edit):
        file.write_text("old")
        assert await change(workbench) == "STALE_READ"
        assert file.read_text() == "odd"
    assert not list(workbench.kept.entries(workbench.session_id))
