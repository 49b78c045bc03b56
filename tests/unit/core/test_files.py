"""Durable files: whole under their name, or nothing of them, with and without files that have no name."""

import pytest

from interlock.core import files
from interlock.core.files import durable_file, write_durably


@pytest.fixture(params=["without a name", "with a name of ours"], autouse=True)
def unseen(request, monkeypatch) -> None:
    if request.param == "with a name of ours":
        monkeypatch.setattr(files, "_open_unnamed", lambda _folder, _mode: None)


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(files.UNFINISHED))


def test_a_file_appears_when_it_is_whole_and_is_its_owners_alone(tmp_path):
    with durable_file(tmp_path / "new") as stream:
        stream.write(b"half")
        assert names(tmp_path) == []
        stream.write(b" and half")
    assert (tmp_path / "new").read_bytes() == b"half and half"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


def test_what_fails_leaves_nothing(tmp_path):
    def broken():
        yield b"half"
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        write_durably(tmp_path / "new", broken())
    assert list(tmp_path.iterdir()) == []


def test_a_file_made_meanwhile_is_replaced_only_where_that_is_meant(tmp_path):
    target = tmp_path / "new"

    def meanwhile():
        target.write_bytes(b"theirs")
        yield b"ours"

    with pytest.raises(FileExistsError):
        write_durably(target, meanwhile())
    assert target.read_bytes() == b"theirs"
    write_durably(target, meanwhile(), replace=True)
    assert target.read_bytes() == b"ours"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
