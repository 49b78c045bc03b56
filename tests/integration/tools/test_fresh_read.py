"""Nothing is overwritten or edited that this session has not seen as it is (DESIGN section 6)."""

import os

import pytest

from tests.harness.store import StoreHarness
from tests.harness.tool_calls import ToolHarness


async def another_session(store: StoreHarness) -> str:
    return (await store.sessions.create(opened_by="test")).id


def change_unnoticed(file, content: str) -> None:
    """As somebody would who does not want it to be seen: the size and the time stay."""
    was = file.stat()
    assert len(content.encode()) == was.st_size
    file.write_text(content)
    os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))


async def overwrite(make_harness: ToolHarness, path: str = "f", **more) -> str | None:
    result = await make_harness.call("write_file", path=path, content="new", **more)
    return result.failure and result.failure.error_code.value


async def edit(make_harness: ToolHarness, find: str = "o", path: str = "f", **more) -> str | None:
    result = await make_harness.call("edit_file", path=path, find=find, replace="N", **more)
    return result.failure and result.failure.error_code.value


@pytest.mark.parametrize("change", [overwrite, edit])
async def test_a_file_that_was_not_read_is_not_changed(harness: ToolHarness, change):
    file = harness.write("f", "old")
    assert await change(harness) == "READ_REQUIRED"
    assert file.read_text() == "old"


@pytest.mark.parametrize("change", [overwrite, edit])
async def test_a_file_that_was_read_is_changed(harness: ToolHarness, change):
    harness.write("f", "old")
    await harness.ok("read_file", path="f")
    assert await change(harness) is None


@pytest.mark.parametrize("change", [overwrite, edit])
@pytest.mark.parametrize("now", ["OLD", "older", "ol", "", "x" * 100])
async def test_a_change_by_somebody_else_is_noticed(harness: ToolHarness, change, now):
    file = harness.write("f", "old")
    await harness.ok("read_file", path="f")
    file.write_text(now)
    assert await change(harness) == "STALE_READ"
    assert file.read_text() == now
    await harness.ok("read_file", path="f")
    assert await change(harness) in {None, "EXECUTION_ERROR"}


@pytest.mark.parametrize("change", [overwrite, edit])
async def test_a_change_that_keeps_size_and_time_is_noticed(harness: ToolHarness, change):
    file = harness.write("f", "old")
    await harness.ok("read_file", path="f")
    change_unnoticed(file, "odd")
    assert await change(harness) == "STALE_READ"


async def test_a_file_that_was_changed_and_changed_back_is_as_it_was_read(harness: ToolHarness):
    file = harness.write("f", "old")
    await harness.ok("read_file", path="f")
    file.write_text("other")
    file.write_text("old")
    assert await overwrite(harness) is None


async def test_another_sessions_read_does_not_count(harness: ToolHarness):
    harness.write("f", "old")
    other = await another_session(harness.store)
    await harness.ok("read_file", path="f", session=other)
    assert await overwrite(harness) == "READ_REQUIRED"
    assert await overwrite(harness, session=other) is None
    assert await overwrite(harness) == "READ_REQUIRED"


async def test_a_write_of_another_session_makes_a_read_stale(harness: ToolHarness):
    harness.write("f", "old")
    other = await another_session(harness.store)
    for session in (other, harness.session_id):
        await harness.ok("read_file", path="f", session=session)
    assert await overwrite(harness, session=other) is None
    assert await overwrite(harness) == "STALE_READ"


async def test_what_a_session_wrote_it_knows(harness: ToolHarness):
    await harness.ok("write_file", path="f", content="one")
    assert await overwrite(harness) is None
    assert await overwrite(harness) is None
    assert await edit(harness, "new") is None
    await harness.ok("write_file", path="f", content="\nmore", mode="append")
    assert await overwrite(harness) is None


async def test_a_failed_call_proves_nothing(harness: ToolHarness):
    harness.write("f", "old")
    await harness.refused("read_file", path="f", offset=100)
    await harness.refused("edit_file", path="f", find="o", replace="x")
    assert await overwrite(harness) == "READ_REQUIRED"


async def test_pages_that_together_cover_the_file_count(harness: ToolHarness):
    text = "".join(f"line {number}\n" for number in range(1000))
    harness.write("f", text)
    await harness.ok("read_file", path="f", line_count=400)
    assert await overwrite(harness) == "READ_REQUIRED"
    await harness.ok("read_file", path="f", start_line=701)
    assert await overwrite(harness) == "READ_REQUIRED"
    await harness.ok("read_file", path="f", start_line=401, line_count=300)
    assert await overwrite(harness) is None


async def test_pages_of_a_file_too_large_to_be_read_at_once_count(harness: ToolHarness):
    """Then each page has a hash of its own. Such a file can be edited once the read limit is higher."""
    harness.narrow(read=1000)
    file = harness.write("f", "".join(f"line {number:04}\n" for number in range(500)))
    pages = await harness.pages("read_file", path="f")
    assert len(pages) > 3
    assert await edit(harness, "line 0002") == "LIMIT_EXCEEDED"
    harness.narrow()
    change_unnoticed(file, file.read_text().replace("line 0300", "LINE 0300"))
    assert await overwrite(harness) == "READ_REQUIRED"
    assert await edit(harness, "line 0300") == "EXECUTION_ERROR"
    assert await edit(harness, "LINE 0300") == "READ_REQUIRED"
    assert await edit(harness, "line 0002") is None
    harness.narrow(read=1000)
    await harness.pages("read_file", path="f")
    assert await overwrite(harness) is None


async def test_only_what_was_read_may_be_edited(harness: ToolHarness):
    harness.write("f", "".join(f"line {number:04}\n" for number in range(1000)))
    await harness.ok("read_file", path="f", line_count=10)
    assert await edit(harness, "line 0500") == "READ_REQUIRED"
    assert await edit(harness, "line 0009\nline 0010") == "READ_REQUIRED"
    assert await edit(harness, "line 00", all=True) == "READ_REQUIRED"
    assert await edit(harness, "line 0009\n") is None


async def test_an_edit_far_away_does_not_need_the_rest(harness: ToolHarness):
    file = harness.write("f", "".join(f"line {number:04}\n" for number in range(1000)))
    await harness.ok("read_file", path="f", start_line=501, line_count=2)
    assert await edit(harness, "line 0500") is None
    assert await edit(harness, "line 0501") is None
    assert await edit(harness, "line 0502") == "READ_REQUIRED"
    assert file.read_text().splitlines()[500] == "N"


@pytest.mark.parametrize("change", [overwrite, edit])
async def test_a_read_under_another_name_of_the_same_place_counts(harness: ToolHarness, change):
    harness.write("d/f", "old")
    (harness.root / "link").symlink_to("d/f")
    (harness.root / "folder").symlink_to("d")
    names = ["link", "folder/f", "d/../d/./f", str(harness.root / "d/f"), "d//f"]
    for name in names:
        harness.write("d/f", f"old {names.index(name)}")
        await harness.ok("read_file", path=name)
        assert await change(harness, path=names[names.index(name) - 1]) is None


async def test_a_link_that_points_elsewhere_now_is_another_file(harness: ToolHarness):
    harness.write("a", "same")
    other = harness.write("b", "other")
    link = harness.root / "link"
    link.symlink_to("a")
    await harness.ok("read_file", path="link")
    link.unlink()
    link.symlink_to("b")
    assert await overwrite(harness, "link") == "READ_REQUIRED"
    assert other.read_text() == "other"


async def test_append_create_move_and_delete_need_no_read(harness: ToolHarness):
    harness.write("f", "old")
    await harness.ok("write_file", path="f", content="er", mode="append")
    await harness.ok("write_file", path="n", content="new")
    await harness.ok("move_file", source="f", destination="g")
    files = {path.name: path.read_text() for path in harness.root.iterdir()}
    assert files == {"g": "older", "n": "new"}
    await harness.ok("delete_file", path="g")
    assert [path.name for path in harness.root.iterdir()] == ["n"]


async def test_what_was_appended_is_known_and_the_rest_is_not(harness: ToolHarness):
    harness.write("f", "secret plan\n")
    await harness.ok("write_file", path="f", content="mine\n", mode="append")
    assert await edit(harness, "mine") is None
    assert await edit(harness, "plan") == "READ_REQUIRED"
    assert await overwrite(harness) == "READ_REQUIRED"


async def test_a_file_that_went_and_came_back_has_to_be_read_again(harness: ToolHarness):
    harness.write("f", "old")
    await harness.ok("read_file", path="f")
    await harness.ok("delete_file", path="f")
    harness.write("f", "old")
    assert await overwrite(harness) == "READ_REQUIRED"


async def test_a_moved_file_has_to_be_read_under_its_new_name(harness: ToolHarness):
    harness.write("f", "old")
    await harness.ok("read_file", path="f")
    await harness.ok("move_file", source="f", destination="g")
    assert await overwrite(harness, "g") == "READ_REQUIRED"
    await harness.ok("read_file", path="g")
    assert await overwrite(harness, "g") is None


async def test_an_undo_makes_what_was_known_stale(harness: ToolHarness):
    await harness.ok("write_file", path="f", content="one")
    await harness.ok("write_file", path="f", content="two")
    await harness.undo.revert(f"call_{harness._count}", who="test")
    assert await overwrite(harness) == "STALE_READ"


async def test_a_read_is_remembered_over_a_long_session(harness: ToolHarness):
    """The log is looked through from its end, however much came after."""
    harness.write("f", "old")
    await harness.ok("read_file", path="f")
    for _ in range(250):
        await harness.ok("current_time")
    assert await overwrite(harness) is None


@pytest.mark.parametrize("path", ["ünï 日本 😀.txt", 'quo"te\\.txt', "new\nline", "token=x"])
async def test_any_name_can_be_read_and_then_written(harness: ToolHarness, path):
    harness.write(path, "old")
    assert await overwrite(harness, path) == "READ_REQUIRED"
    await harness.ok("read_file", path=path)
    assert await edit(harness, "old", path) is None
    assert await overwrite(harness, path) is None
    assert (harness.root / path).read_text() == "new"


async def test_a_read_counts_below_a_folder_whose_name_is_no_text(harness: ToolHarness):
    """The log holds such a name in another spelling than the system does."""
    file = harness.write(os.fsdecode(b"caf\xe9/f"), "old")
    (harness.root / "link").symlink_to(os.fsdecode(b"caf\xe9"))
    assert await overwrite(harness, "link/f") == "READ_REQUIRED"
    await harness.ok("read_file", path="link/f")
    assert await edit(harness, "o", "link/f") is None
    assert file.read_text() == "Nld"


async def test_a_change_between_judging_and_writing_is_noticed(harness: ToolHarness, monkeypatch):
    file = harness.write("f", "old")
    await harness.ok("read_file", path="f")
    real = harness.kept.keep

    def late(change, pieces):
        kept = real(change, pieces)
        change_unnoticed(file, "odd")
        return kept

    monkeypatch.setattr(harness.kept, "keep", late)
    for change in (overwrite, edit):
        file.write_text("old")
        assert await change(harness) == "STALE_READ"
        assert file.read_text() == "odd"
    assert not list(harness.kept.entries(harness.session_id))
