"""What agents write into an opened folder is never part of Interlock's own processes."""

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from interlock.config.directory_checks import reject_writable_code_paths
from interlock.sandbox.backend_selection import choose_backend
from tests.harness.mcp import QUICK, SERVERS
from tests.harness.store import StoreHarness
from tests.harness.tool_calls import ToolHarness

PLANTED = "import os, pathlib\npathlib.Path(os.environ['MARK']).write_text('planted')\nos._exit(3)\n"


def test_workers_that_are_started_in_an_opened_folder_load_nothing_from_it(tmp_path):
    """`interlock serve --root . --workers 2` in a project is the usual way to begin."""
    root, mark = tmp_path / "root", tmp_path / "mark"
    (root / "interlock").mkdir(parents=True)
    for name in ("interlock/__init__.py", "orjson.py", "logging.py"):
        (root / name).write_text(PLANTED)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "INTERLOCK_STATE_DIR": str(tmp_path / "state"),
        "WORKSPACE_DIR": str(tmp_path / "workspace"),
        "TOOL_ALLOWED_ROOTS": str(root),
        "WORKER_MAX_CRASHES": "1",
        "MARK": str(mark),
    }
    supervisor = subprocess.Popen(
        # As the program that pip installs: without the folder it stands in.
        [sys.executable, "-P", "-m", "interlock", "supervisor", "--workers", "1"],
        cwd=root,
        env=environment,
        stderr=subprocess.PIPE,
    )
    try:
        deadline = time.monotonic() + 60
        told = b""
        while b"working on" not in told:
            assert not mark.exists(), "a worker ran what lay in the opened folder"
            assert time.monotonic() < deadline, told
            line = supervisor.stderr.readline()
            assert line, f"the supervisor has ended: {told!r}"
            told += line
    finally:
        supervisor.terminate()
        supervisor.communicate(timeout=60)
    assert not mark.exists()


async def test_a_command_has_its_home_where_no_other_command_can_write(
    sqlite_store: StoreHarness, tmp_path, monkeypatch
):
    """`interlock chat --root /tmp`: what is in a home decides what git, npm and others run."""
    session = await sqlite_store.sessions.create(opened_by="test")
    bench = ToolHarness(sqlite_store, session.id, tmp_path)
    await bench.open_sandbox()
    monkeypatch.setattr(tempfile, "tempdir", str(bench.root))
    try:
        result = await bench.call("bash", cmd='echo "$HOME:$TMPDIR"')
    finally:
        await bench.backend.close()
    assert result.ok, result
    assert str(bench.root) not in result.stdout
    assert list(bench.root.iterdir()) == []


async def test_an_mcp_server_stands_where_no_command_can_write(mcp, monkeypatch):
    """Python looks for modules in the folder it stands in, before all others."""
    monkeypatch.setattr(tempfile, "tempdir", str(mcp.root))
    is_over = threading.Event()
    planting = asyncio.create_task(asyncio.to_thread(_plant_into_new_folders, mcp.root, is_over))
    command = (QUICK[0], "-S", "-m", "hostile", "well")
    try:
        await mcp.add("bad", *command, environment=(f"PYTHONPATH={SERVERS}",))
        assert "echo" in await mcp.inspect("bad")
    finally:
        is_over.set()
        planted = await planting
    assert planted == []


def _plant_into_new_folders(root: Path, is_over: threading.Event) -> list[str]:
    """As a command of another session would, that may write in the root."""
    while not is_over.wait(0.0005):
        for folder in root.glob("interlock-*"):
            for name in ("hostile.py", "json.py"):
                (folder / name).write_text("import os\nos._exit(3)\n")
            return [folder.name]
    return []


async def test_the_sandbox_is_not_tried_out_where_a_command_can_write(tmp_path, monkeypatch):
    """Workers are started again while an agent works; what they find would be what it wants."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    is_over = threading.Event()
    planting = asyncio.create_task(asyncio.to_thread(_plant_into_new_folders, tmp_path, is_over))
    try:
        choice = await choose_backend("auto", opened=[tmp_path])
        if choice.backend is not None:
            await choice.backend.close()
    finally:
        is_over.set()
        planted = await planting
    assert planted == []


async def test_without_a_place_that_is_not_opened_no_command_is_run(sqlite_store: StoreHarness, tmp_path):
    session = await sqlite_store.sessions.create(opened_by="test")
    bench = ToolHarness(sqlite_store, session.id, tmp_path)
    usual = (tempfile.gettempdir(), "/tmp", "/var/tmp")  # noqa: S108 - nothing is made there
    bench.roots = (bench.root, *(Path(name).resolve() for name in usual))
    await bench.open_sandbox()
    try:
        result = await bench.call("bash", cmd="true")
    finally:
        await bench.backend.close()
    assert "TMPDIR" in result.failure.message


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("tool", "list"), "{root}"),
        (("tool", "list"), "/usr/lib/nowhere:{root}/src"),
        (("tool", "list"), ""),
        (("tool", "list"), "src"),
        (("serve",), "{root}/src"),
        (("worker",), "{root}/src"),
        (("doctor",), "{root}/src"),
    ],
)
def test_pythons_own_search_path_leads_into_no_opened_folder(tmp_path, named, words):
    """PYTHONPATH of a project, or one with an empty entry, holds for every program in that shell."""
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "INTERLOCK_STATE_DIR": str(tmp_path / "state"),
        "WORKSPACE_DIR": str(tmp_path / "workspace"),
        "TOOL_ALLOWED_ROOTS": str(root),
        "PYTHONPATH": os.pathsep.join([named.format(root=root), str(tmp_path)]),
    }
    done = subprocess.run(
        [sys.executable, "-P", "-m", "interlock", *words],
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done
    said = " ".join((done.stdout + done.stderr).split())
    assert "Python would load modules from" in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LD_LIBRARY_PATH", "{root}/lib"),
        ("LD_LIBRARY_PATH", "/usr/lib:lib"),
        # An empty entry is the folder that one stands in: LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/more makes one.
        ("LD_LIBRARY_PATH", ":/usr/local/cuda/lib64"),
        ("LD_PRELOAD", "/usr/lib/a.so {root}/b.so"),
        ("LD_AUDIT", "./a.so"),
        # What is compiled is found there before what it was compiled from.
        ("PYTHONPYCACHEPREFIX", "{root}/.cache"),
        ("PYTHONUSERBASE", ".local"),
        ("OPENSSL_CONF", "{root}/openssl.cnf"),
    ],
)
def test_the_linkers_search_path_leads_into_no_opened_folder(tmp_path, monkeypatch, name, value):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, value.format(root=tmp_path))
    with pytest.raises(ValueError, match=f"{name} has code loaded"):
        reject_writable_code_paths([tmp_path])


def test_an_environment_that_lies_elsewhere_is_in_nobodys_way(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "other")])
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "other"))
    monkeypatch.setenv("LD_PRELOAD", "libjemalloc.so.2 ")
    monkeypatch.chdir(tmp_path)
    reject_writable_code_paths([tmp_path / "root"])
    with pytest.raises(ValueError, match="other"):
        reject_writable_code_paths([tmp_path / "other"])


def test_a_folder_that_is_gone_is_in_nobodys_way(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    monkeypatch.setattr(sys, "path", ["", "relative", *sys.path])
    with pytest.raises(ValueError, match="gone"):
        reject_writable_code_paths([tmp_path])
    (tmp_path / "gone").rmdir()
    reject_writable_code_paths([tmp_path])
