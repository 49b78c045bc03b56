"""The judge of changed modes: whose question it is, and where the file lies, before it changes anything."""

import errno
import os
import stat
from pathlib import Path

import pytest

from interlock.sandbox.child import metadata_syscall_handler
from interlock.sandbox.child.metadata_syscall_handler import MetadataSyscallHandler
from interlock.sandbox.child.syscall_numbers import SYSCALL_NUMBERS

LISTENER = 1000


class Asking:
    """The kernel's side: one question about an open file of this process, and the answer to it."""

    def __init__(self, file: Path, mode: int, *, is_gone: bool = False) -> None:
        self.descriptor = os.open(file, os.O_RDONLY)
        self.is_gone = is_gone
        self.error: int | None = None
        number = SYSCALL_NUMBERS["fchmod"][os.uname().machine]
        arguments = (self.descriptor, mode, 0, 0, 0, 0)
        self._question = metadata_syscall_handler._QUESTION.pack(
            7, os.getpid(), 0, number, 0, 0, *arguments
        )

    def ioctl(self, _listener: int, request: int, data: bytearray | bytes) -> None:
        if request == metadata_syscall_handler._RECEIVE:
            assert isinstance(data, bytearray)
            data[:] = self._question
        elif request == metadata_syscall_handler._IS_VALID and self.is_gone:
            raise OSError(errno.ENOENT, "nobody asks any more")
        elif request == metadata_syscall_handler._SEND:
            _identity, _value, self.error, _flags = metadata_syscall_handler._ANSWER.unpack(data)


def answered(monkeypatch, file: Path, folder: Path, **question) -> int:
    """The error that the caller gets."""
    asking = Asking(file, question.pop("mode", 0o640), **question)
    monkeypatch.setattr(metadata_syscall_handler.fcntl, "ioctl", asking.ioctl)
    try:
        MetadataSyscallHandler(LISTENER, [os.fsencode(folder)]).answer()
    finally:
        os.close(asking.descriptor)
    assert asking.error is not None
    return -asking.error


@pytest.fixture
def file(tmp_path) -> Path:
    (tmp_path / "inside").mkdir()
    made = tmp_path / "inside" / "file"
    made.write_text("x")
    made.chmod(0o600)
    return made


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_a_file_in_a_folder_that_may_be_written_is_changed(monkeypatch, file):
    assert answered(monkeypatch, file, file.parent) == 0
    assert mode_of(file) == 0o640


def test_what_was_asked_by_somebody_who_is_gone_changes_nothing(monkeypatch, file):
    """A later process may have its number, and the descriptor is then another file's."""
    assert answered(monkeypatch, file, file.parent, is_gone=True) == errno.ENOENT
    assert mode_of(file) == 0o600


@pytest.mark.parametrize("folder", ["inside/other", "in", "inside/fil"])
def test_a_file_elsewhere_is_not_changed_however_its_folder_is_called(monkeypatch, file, tmp_path, folder):
    assert answered(monkeypatch, file, tmp_path / folder) == errno.EPERM
    assert mode_of(file) == 0o600


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6755])
def test_no_file_is_made_to_run_as_its_owner(monkeypatch, file, mode):
    assert answered(monkeypatch, file, file.parent, mode=mode) == errno.EPERM
    assert mode_of(file) == 0o600
