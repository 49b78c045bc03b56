"""A sandboxed child from its start to its end: what it is given, what bounds it, how it ends."""

import asyncio
import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.sandbox.jobs import ExitReason, Job, JobLimits, system_paths
from interlock.sandbox.landlock_backend import LandlockBackend
from interlock.sandbox.profile import SandboxProfile
from tests.escape.loop_watch import watched_loop
from tests.harness.sandbox import everything, finished, first_line, only_survivor
from tests.unit.sandbox.conftest import open_descriptors

ROOT = Path(__file__).parents[2]


async def test_the_environment_is_exactly_the_one_given(sandbox):
    done = await sandbox.run("/usr/bin/env", environment={"ONLY": "this", "UTF": "ä"})
    assert sorted(done.out.splitlines()) == sorted(
        ["PATH=/usr/bin:/bin", f"INTERLOCK_TEST_MARK={sandbox.mark}", "ONLY=this", "UTF=ä"]
    )


async def test_it_starts_in_the_folder_that_was_opened_whatever_its_path_leads_to_now(sandbox):
    sandbox.inside.rename(sandbox.place / "moved")
    (sandbox.place / "inside").mkdir()
    done = await sandbox.run("/bin/pwd")
    assert done.out.strip() == str(sandbox.place / "moved")


async def test_it_inherits_no_descriptor_but_its_three(sandbox):
    code = (
        "import os\n"
        "def is_open(n):\n"
        "    try: os.fstat(n)\n"
        "    except OSError: return False\n"
        "    return True\n"
        "print([n for n in range(4096) if is_open(n)], os.readlink('/proc/self/fd/0'))"
    )
    done = await sandbox.python(code)
    assert done.out.strip() == "[0, 1, 2] /dev/null"


async def test_it_has_a_session_and_a_group_of_its_own(sandbox):
    done = await sandbox.python("import os; print(os.getpid() == os.getsid(0) == os.getpgid(0))")
    assert done.out.strip() == "True"


async def test_no_signal_is_ignored_or_blocked(sandbox):
    async with sandbox.backend.running(sandbox.job("/bin/cat", "/dev/zero")) as child:
        await child.stdout.read(1)
        (pid,) = sandbox.survivors()
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
    masks = dict(line.split() for line in status if line.startswith(("SigBlk", "SigIgn")))
    # 32 and 33 are the C library's own: nobody can reset them, and some parents leave them ignored.
    of_the_library = 1 << 31 | 1 << 32
    assert {int(mask, 16) & ~of_the_library for mask in masks.values()} == {0}


@pytest.mark.parametrize("code", [0, 1, 42, 127, 255])
async def test_its_exit_code_is_told(sandbox, code):
    done = await sandbox.shell(f"exit {code}")
    assert (done.ended.reason, done.ended.exit_code, done.ended.signal) == (ExitReason.exited, code, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGPIPE])
async def test_the_signal_that_ended_it_is_told(sandbox, number):
    done = await sandbox.shell(f"kill -{int(number)} $$")
    assert (done.ended.reason, done.ended.exit_code, done.ended.signal) == (
        *(ExitReason.signalled, None, number),
    )
    assert number.name in done.ended.text


@pytest.fixture
def unopened() -> int:
    """What the system says of a file that is not opened. Under Landlock it is there, and out of reach."""
    return errno.EACCES


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("/nonexistent/program", errno.ENOENT),
        ("{inside}/file", errno.EACCES),
        ("/usr", errno.EACCES),
        ("{outside}/program", "unopened"),
        ("{inside}/not-a-program", errno.ENOEXEC),
        ("{inside}/no-interpreter", errno.ENOENT),
    ],
)
async def test_a_program_that_cannot_be_executed_is_told_with_the_systems_reason(
    sandbox, unopened, program, error
):
    error = unopened if error == "unopened" else error
    for place, name, text in (
        (sandbox.outside, "program", "#!/bin/sh\n"),
        (sandbox.inside, "not-a-program", "just text\n"),
        (sandbox.inside, "no-interpreter", "#!/nonexistent/shell\n"),
    ):
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    done = await sandbox.run(program.format(inside=sandbox.inside, outside=sandbox.outside))
    assert (done.ended.reason, done.ended.error) == (ExitReason.not_started, error)
    assert os.strerror(error) in done.ended.text
    # And the supervisor that failed to start it runs the next one.
    assert (await sandbox.shell("echo next")).out == "next\n"


async def test_an_argument_list_that_is_too_long_is_told(sandbox):
    done = await sandbox.run("/bin/true", *["x" * 100_000] * 40)
    assert (done.ended.reason, done.ended.error) == (ExitReason.not_started, errno.E2BIG)


async def test_a_long_command_line_and_a_large_environment_arrive_whole(sandbox):
    words = [f"{number:05d}" + "y" * 100_000 for number in range(8)]
    done = await sandbox.python(
        "import sys, os; print(sum(map(len, sys.argv[1:])), len(os.environ['BIG']))",
        *words,
        environment={"BIG": "z" * 100_000},
    )
    assert done.out.split() == [str(8 * 100_005), "100000"]


async def test_names_that_are_not_text_arrive_as_they_are(sandbox):
    done = await sandbox.run("/bin/echo", b"\xff\xfe", "ä")
    assert done.out.encode("utf-8", "replace") == "\ufffd\ufffd ä\n".encode()


async def test_a_missing_root_starts_nothing(sandbox):
    job = Job(("/bin/true",), sandbox.folder, {}, SandboxProfile((sandbox.place / "gone",)))
    async with sandbox.backend.running(job) as child:
        ended = await child.wait()
    assert (ended.reason, ended.error) == (ExitReason.not_started, errno.ENOENT)
    assert str(sandbox.place / "gone") in ended.text


@pytest.mark.parametrize(
    "job", [{"argv": ()}, {"argv": ("true",)}, {"environment": {"A=B": "c"}}, {"environment": {"A": "\0"}}]
)
def test_a_job_that_means_something_else_to_the_kernel_is_refused(job):
    whole = {"argv": ("/bin/true",), "folder": 0, "environment": {}, "profile": SandboxProfile(), **job}
    with pytest.raises(ValueError, match=r"a job|a null character|a variable"):
        Job(**whole)


async def test_a_system_file_that_is_replaced_while_the_server_runs_is_read_anew(tmp_path):
    """As ldconfig and useradd do: the same name is another file then, and a rule holds for a file."""
    setting, folder = tmp_path / "setting", os.open("/", os.O_PATH)
    setting.write_text("old")
    backend = LandlockBackend(system=(*system_paths(), setting))
    job = Job(("/bin/cat", str(setting)), folder, {}, SandboxProfile())
    try:
        for content in ("old", "new", "newest"):
            (tmp_path / "draft").write_text(content)
            (tmp_path / "draft").rename(setting)
            async with backend.running(job) as child:
                assert (await finished(child)).out == content
    finally:
        await backend.close()
        os.close(folder)


# -- output --


async def test_both_streams_are_read_apart_and_whole(sandbox):
    done = await sandbox.shell("seq 1 20000; seq 20001 30000 >&2")
    assert done.out.split() == [str(number) for number in range(1, 20001)]
    assert done.err.split() == [str(number) for number in range(20001, 30001)]


async def test_a_child_nobody_reads_is_held_up_and_not_buffered(sandbox):
    async with sandbox.backend.running(sandbox.job("/bin/sh", "-c", "echo on >&2; exec yes")) as child:
        await first_line(child.stderr)
        for _ in range(3):
            assert len(await child.stdout.read(1000)) == 1000
        assert (await child.stop()).reason is ExitReason.stopped


async def test_output_can_be_read_after_the_end(sandbox):
    async with sandbox.backend.running(sandbox.job("/bin/sh", "-c", "echo late; echo worse >&2")) as child:
        await child.wait()
        assert await everything(child.stdout) == b"late\n"
        assert await everything(child.stderr) == b"worse\n"


async def test_no_descriptor_is_left_after_many_jobs(sandbox):
    await asyncio.gather(*(sandbox.shell("true") for _ in range(4)))
    before = open_descriptors()
    for _ in range(5):
        await asyncio.gather(*(sandbox.shell("true") for _ in range(4)))
        await sandbox.run("/nonexistent")
    assert len(open_descriptors()) <= len(before)


async def test_thirty_jobs_run_at_once_and_the_loop_stays_free(sandbox):
    """They take longer than a start does on a machine that has other things to do."""
    async with watched_loop() as holds:
        done = await asyncio.gather(*(sandbox.shell(f"sleep 2; echo {number}") for number in range(30)))
    assert [one.out for one in done] == [f"{number}\n" for number in range(30)]
    assert holds.longest_seconds < 2


async def test_more_descriptors_may_be_under_way_than_an_ordinary_account_may_have_open(sandbox):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (700, hard))
    try:
        done = await asyncio.gather(*(sandbox.run("/bin/true") for _ in range(200)))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert {one.ended.exit_code for one in done} == {0}


# -- limits of the kernel --


async def test_a_file_that_grows_too_large_ends_its_writer(sandbox):
    done = await sandbox.run("/bin/dd", "if=/dev/zero", "of=big", "bs=64k", "count=64")
    assert done.ended.signal == signal.SIGXFSZ
    assert (sandbox.inside / "big").stat().st_size == 2**20


async def test_processor_time_is_bounded(sandbox):
    done = await sandbox.shell("while :; do :; done", limits=JobLimits(cpu_seconds=1))
    assert done.ended.signal in (signal.SIGXCPU, signal.SIGKILL)


async def test_address_space_and_open_files_are_bounded_and_there_is_no_core(sandbox):
    code = "from resource import *; print([getrlimit(k) for k in (RLIMIT_AS, RLIMIT_NOFILE, RLIMIT_CORE)])"
    done = await sandbox.python(code, limits=JobLimits(address_space_bytes=2**30, open_files=50))
    assert done.out.strip() == f"[({2**30}, {2**30}), (50, 50), (0, 0)]"


async def test_where_memory_runs_out_the_kernel_takes_a_job_first(sandbox):
    async with sandbox.backend.running(sandbox.job("/bin/sh", "-c", "echo on; exec sleep 60")) as child:
        await first_line(child.stdout)
        pid = await only_survivor(sandbox)
        assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "800\n"


# -- where it cannot be done --


def started_under(filter_code: str) -> str:
    """What a server says that starts under a filter of somebody else's, as in a container."""
    code = (
        "import asyncio, ctypes, errno, os\n"
        "from interlock.sandbox.child import seccomp\n"
        "from interlock.sandbox.jobs import SandboxUnavailable\n"
        "from interlock.sandbox.landlock_backend import LandlockBackend\n"
        "from interlock.sandbox.probe import probe\n"
        "ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)\n"
        f"{filter_code}\n"
        "async def main():\n"
        "    backend = LandlockBackend()\n"
        "    try:\n"
        "        await backend.start()\n"
        "        print(*(row.name for row in (await probe(backend, opened=())).open))\n"
        "    except SandboxUnavailable as error:\n"
        "        print('refused:', error)\n"
        "    await backend.close()\n"
        "asyncio.run(main())\n"
    )
    paths = [str(ROOT / "src"), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(paths)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def refusing(number: int, error: int) -> str:
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | error), (0x06, 0, 0, 0x7FFF0000)]
    return f"seccomp.enter(seccomp.prepare_filter({steps}))"


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM])
@pytest.mark.parametrize("number", [444, 446], ids=["no rulesets", "no entering"])
def test_where_landlock_is_forbidden_nothing_is_started(number, error):
    assert started_under(refusing(number, error)).startswith("refused: children cannot be confined")


def test_where_landlock_answers_and_does_nothing_nothing_is_started():
    """As an emulated kernel might: entering succeeds and confines nobody."""
    assert started_under(refusing(446, 0)).startswith("refused: children cannot be confined")


def test_inside_a_sandbox_that_judges_calls_itself_what_stays_open_is_found_out():
    code = "seccomp.enter_with_listener(seccomp.prepare_filter([(0x06, 0, 0, 0x7FFF0000)]))"
    assert started_under(code) == "change the mode of a file outside"
    assert started_under("pass") == ""
