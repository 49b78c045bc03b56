"""The kept output of commands."""

import os

from interlock.core.session_files import BLOCK_BYTES
from interlock.tools.shell import output_spool
from interlock.tools.shell.output_spool import OutputSpool


def kept(tmp_path, max_bytes=10**6) -> OutputSpool:
    return OutputSpool(tmp_path / "outputs", max_bytes=max_bytes)


def test_what_a_command_wrote_is_found_again_in_its_own_session(tmp_path):
    keeper = kept(tmp_path)
    output = keeper.begin("s")
    output.out.write(b"out")
    output.err.write(b"err")
    assert keeper.find("s", output.name) is None
    keeper.keep("s", output)
    found = keeper.find("s", output.name)
    assert (found.out.read(0, 9), found.err.read(1, 9)) == (b"out", b"rr")
    found.close()
    assert keeper.find("another", output.name) is None
    assert keeper.find("s", "0" * 16) is None


def test_a_name_leads_to_no_other_session_and_out_of_no_folder(tmp_path):
    keeper = kept(tmp_path)
    keeper.begin("s").close()
    theirs = keeper.begin("theirs")
    keeper.keep("theirs", theirs)
    (folder,) = {path.parent.name for path in (tmp_path / "outputs").rglob(f"{theirs.name}.*")}
    for stream in output_spool.STREAMS:
        (tmp_path / f"escape.{stream}").write_text("x")
    for name in (f"../{folder}/{theirs.name}", "../../escape", f"{tmp_path}/escape"):
        assert keeper.find("s", name) is None


def test_a_stream_is_bounded_and_says_how_much_there_was(tmp_path):
    output = kept(tmp_path).begin("s")
    output.out.limit = 10
    for _ in range(3):
        output.out.write(b"12345678")
    assert (output.out.size, output.out.total, output.out.is_whole) == (10, 24, False)
    assert output.out.read(0, 99) == b"1234567812"
    output.close()


def test_the_oldest_go_when_there_is_too_much(tmp_path):
    keeper = kept(tmp_path, max_bytes=2 * BLOCK_BYTES)
    names = []
    for number in range(4):
        output = keeper.begin("s")
        output.out.write(b"x" * 60)
        keeper.keep("s", output)
        names.append(output.name)
        for path in (tmp_path / "outputs").rglob(f"{output.name}.*"):
            os.utime(path, (number, number))
    keeper.begin("s").close()
    assert [keeper.find("s", name) is not None for name in names] == [False, False, True, True]


def test_only_the_owner_can_read_it_and_a_deleted_session_leaves_nothing(tmp_path):
    keeper = kept(tmp_path)
    keeper.begin("s").close()
    files = [path for path in (tmp_path / "outputs").rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    keeper.files.delete_session("s")
    assert not [path for path in (tmp_path / "outputs").rglob("*") if path.is_file()]


def test_an_odd_session_id_stays_in_the_folder(tmp_path):
    keeper = kept(tmp_path)
    keeper.begin("../../escape").close()
    assert [path.name for path in tmp_path.iterdir()] == ["outputs"]
