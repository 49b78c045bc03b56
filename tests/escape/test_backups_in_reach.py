"""A backup is the whole log and every setting: agents neither read one nor write one."""

from pathlib import Path

import pytest

from tests.harness.cli import CliRunner, one_line_error


@pytest.fixture
def interlock(tmp_path) -> CliRunner:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "link").symlink_to(root)
    return CliRunner(tmp_path, {"TOOL_ALLOWED_ROOTS": str(root)})


@pytest.mark.parametrize("name", ["root/b.zip", "link/b.zip", "root/out/b.zip"])
def test_no_backup_is_written_where_agents_read(interlock, tmp_path, name):
    (tmp_path / "outside").mkdir()
    (tmp_path / "root" / "out").symlink_to(tmp_path / "outside")
    assert "agents could read it" in one_line_error(interlock, "backup", str(tmp_path / name))
    assert list(tmp_path.rglob("b.zip*")) == []


@pytest.mark.parametrize("name", ["root/b.zip", "link/b.zip", "outside.zip", "root/kept.zip"])
def test_no_backup_is_restored_that_agents_could_have_written(interlock, tmp_path, name):
    """The hashes in it have no key: who can write it can have it say that anything was allowed."""
    kept = tmp_path / "kept.zip"
    interlock("backup", str(kept))
    (tmp_path / "root" / "b.zip").write_bytes(kept.read_bytes())
    (tmp_path / "root" / "kept.zip").symlink_to(kept)
    (tmp_path / "outside.zip").symlink_to(tmp_path / "root" / "b.zip")
    told = one_line_error(interlock, "restore", str(tmp_path / name), "--replace")
    assert "agents could have changed it" in told
    assert Path(kept).exists()


def test_elsewhere_both_work(interlock, tmp_path):
    session = interlock.json("tool", "call", "current_time")["session_id"]
    interlock("backup", str(tmp_path / "b.zip"))
    interlock("sessions", "delete", session, "--yes")
    interlock("restore", str(tmp_path / "b.zip"), "--replace")
    assert session in interlock("sessions", "list", "--group", "all").stdout
