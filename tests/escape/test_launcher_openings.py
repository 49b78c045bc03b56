"""What stays open to a job, and why: doors that gain nothing, and programs that must work."""

from pathlib import Path

import pytest

from interlock.sandbox.jobs import JobLimits
from tests.escape.trying import attempt
from tests.harness.sandbox import SECRET

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def sandbox(shared_sandbox):
    return shared_sandbox


# -- what stays open --


@pytest.mark.parametrize(
    "body", ["os.stat(outside + '/file')", "os.access(outside, os.R_OK)", "os.chdir(outside)"]
)
async def test_open_because_landlock_has_no_right_for_it_names_and_sizes_outside_can_be_asked_for(
    sandbox, body
):
    assert (await attempt(sandbox, body, kind="chat")).startswith("reached")


async def test_open_in_coding_because_tools_need_it_changes_outside_can_be_watched(sandbox):
    body = "call(254, call(294, 0), outside.encode(), 0xfff)"
    assert (await attempt(sandbox, body, kind="coding")).startswith("reached")


async def test_open_because_it_gains_nothing_a_file_without_leave_can_be_executed_from_memory(sandbox):
    code = (
        "import os, sys\n"
        "fd = os.memfd_create('x', 0)\n"
        "os.write(fd, open('/bin/cat', 'rb').read())\n"
        "os.execve(fd, ['cat', sys.argv[1]], {})\n"
    )
    done = await sandbox.python(code, str(sandbox.outside / "file"))
    assert "Permission denied" in done.err
    assert SECRET not in done.both


async def test_open_without_a_quota_many_files_can_fill_the_disk_but_each_is_bounded(sandbox):
    done = await sandbox.shell(
        "for n in 1 2 3; do dd if=/dev/zero of=$n bs=64k count=12 2> /dev/null; done; ls"
    )
    assert {"1", "2", "3"} <= set(done.out.split())


# -- what must work --


async def test_devices_that_harm_nobody_work(sandbox):
    done = await sandbox.shell(
        "head -c 3 /dev/urandom | wc -c; echo x > /dev/null; head -c 2 /dev/zero | wc -c"
    )
    assert (done.out.split(), done.err) == (["3", "2"], "")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            ("/bin/bash", "-c", "cat <(echo substituted) <<< here; cat <<E\nthere\nE"),
            "substituted\nthere\n",
        ),
        (("/bin/sh", "-c", "echo out > /dev/stdout; echo in | cat /dev/stdin"), "out\nin\n"),
        (("/usr/bin/git", "--version"), "git version"),
        (("/usr/bin/jq", "-n", "1+1"), "2"),
        (("/usr/bin/find", ".", "-name", "file"), "./file"),
        (("/usr/bin/sort", "file"), "inside"),
        (("/usr/bin/perl", "-e", "print 6*7"), "42"),
        (
            (
                "/usr/bin/python3",
                "-c",
                "import ssl, asyncio; print(asyncio.run(asyncio.sleep(0, 7)))",
            ),
            "7",
        ),
        (("/usr/bin/node", "-e", "console.log(os.cpus().length > 0)"), "true"),
        (("/usr/bin/awk", "BEGIN { print 3 }"), "3"),
        (("/usr/bin/tar", "--version"), "tar"),
        (("/usr/bin/nproc",), ""),
        (("/usr/bin/id", "-un"), ""),
        (("/bin/date",), ""),
    ],
)
async def test_ordinary_programs_work_where_nothing_may_be_written(sandbox, argv, expected):
    if not Path(argv[0]).exists():
        pytest.skip(f"{argv[0]} is not installed")
    done = await sandbox.run(*argv, kind="chat", environment={"HOME": "/nowhere"}, limits=JobLimits())
    assert done.ended.exit_code == 0, done
    assert expected in done.out
    assert done.err == ""


async def test_git_commits_where_it_may_write(sandbox):
    home = sandbox.place / "home"
    home.mkdir()
    script = (
        "git init -q . && git add file && git -c user.name=a -c user.email=a@b commit -qm first && "
        "git log --oneline | wc -l && cp -p file copy && chmod 755 copy && echo x > $HOME/private"
    )
    done = await sandbox.shell(script, environment={"HOME": str(home)}, private_folders=(home,))
    assert (done.out.strip(), done.ended.exit_code) == ("1", 0), done
    assert (home / "private").exists()


async def test_not_usable_because_shared_memory_is_everybodys_pythons_locks_between_processes(sandbox):
    done = await sandbox.python("import _multiprocessing as m; m.SemLock(1, 1, 1, '/interlock', True)")
    assert "PermissionError" in done.err


async def test_extra_readable_paths_are_read_and_missing_ones_are_no_error(sandbox):
    extra = (sandbox.outside / "file", sandbox.place / "missing")
    done = await sandbox.run("/bin/cat", str(sandbox.outside / "file"), readable_paths=extra)
    assert done.out == SECRET
