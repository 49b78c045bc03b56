"""What a job cannot do, tried from within: files, processes, sockets, the kernel. And what stays open."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.sandbox.jobs import EndReason, Job, JobLimits
from interlock.sandbox.landlock import SCOPE_ABI
from interlock.sandbox.profile import SandboxProfile
from tests.escape.attempts import (
    FILES,
    KERNEL,
    METADATA,
    OF_THE_SYSTEM,
    PROCESSES,
    SET_ID,
    SOCKETS,
    program,
)
from tests.escape.confinement import PYTHON, SECRET, eventually, finished

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def world(shared_world):
    return shared_world


KINDS = ("chat", "coding")


class Listener:
    """Somebody outside who would hear: on a port, by path, by abstract name, by datagram."""

    def __init__(self, place: Path) -> None:
        self.path = str(place / "sock")
        self.sockets = [socket.create_server(("127.0.0.1", 0))]
        self.port = self.sockets[0].getsockname()[1]
        for name in (self.path, "\0" + self.path):
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(name)
            listening.listen()
            self.sockets.append(listening)

    def close(self) -> None:
        for one in self.sockets:
            one.close()


@pytest.fixture
def listener(world) -> Iterator[Listener]:
    opened = Listener(world.outside)
    yield opened
    opened.close()


async def attempt(world, body: str, *, kind: str, listener: Listener | None = None, **options) -> str:
    port, path = (listener.port, listener.path) if listener else (9, "/nowhere")
    done = await world.python(
        program(body),
        *(str(world.outside), str(world.inside), str(os.getpid()), str(port), path),
        kind=kind,
        **options,
    )
    assert done.ended.reason is EndReason.exited, (done.ended, done.err)
    assert "Traceback" not in done.err, done.err
    assert SECRET not in done.both
    return done.out.strip()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FILES)
async def test_files_outside_are_out_of_reach(world, name, kind):
    (world.outside / "empty").mkdir()
    (world.inside / "link-out").symlink_to(world.outside / "file")
    body, refusals = FILES[name]
    assert await attempt(world, body, kind=kind) in refusals
    assert sorted(path.name for path in world.outside.iterdir()) == ["empty", "file"]
    assert (world.outside / "file").read_text() == SECRET


@pytest.mark.parametrize(
    "body",
    [
        "open(inside + '/file', 'a')",
        "open(inside + '/new', 'x')",
        "os.unlink(inside + '/file')",
        "os.mkdir(inside + '/new')",
        "os.truncate(inside + '/file', 0)",
        "os.rename(inside + '/file', inside + '/new')",
        "os.link(inside + '/file', inside + '/new')",
    ],
)
async def test_a_profile_that_only_reads_changes_nothing_inside_and_one_that_writes_does(world, body):
    before = sorted((path.name, path.read_bytes()) for path in world.inside.iterdir())
    assert await attempt(world, body, kind="chat") in ("EACCES", "EXDEV")
    assert sorted((path.name, path.read_bytes()) for path in world.inside.iterdir()) == before
    assert (await attempt(world, body, kind="coding")).startswith("reached")


@pytest.mark.parametrize(
    "body",
    [
        "os.link(outside + '/file', inside + '/new')",
        "os.rename(outside + '/file', inside + '/new')",
        "os.rename(inside + '/file', outside + '/file')",
        "os.rename(inside, outside + '/moved')",
    ],
)
async def test_what_may_only_be_read_does_not_become_writable_by_another_name(world, body):
    job = Job(
        (PYTHON, "-I", "-S", "-c", program(body), str(world.outside), str(world.inside), "1", "1", "x"),
        *(world.folder, {}, SandboxProfile((world.inside, world.outside), (world.inside,))),
    )
    async with world.backend.running(job) as child:
        assert (await finished(child)).out.strip() in ("EXDEV", "EACCES")
    assert (world.outside / "file").read_text() == SECRET


@pytest.mark.parametrize("name", PROCESSES)
async def test_other_processes_are_out_of_reach(world, name):
    if ("signal" in name or "kill" in name) and world.backend.abi < SCOPE_ABI:
        pytest.skip("this kernel's Landlock has no scope for signals")
    body, refusals = PROCESSES[name]
    assert await attempt(world, body, kind="coding") in refusals


async def test_a_job_may_signal_and_list_what_it_started_itself(world):
    done = await world.shell("sleep 30 & kill -TERM $! && wait $!; echo $?")
    assert done.out.strip() == "143"


async def test_jobs_cannot_signal_each_other(world):
    async with world.backend.running(world.job("/bin/sleep", "30")):
        assert await eventually(lambda: len(world.survivors()) == 1)
        (other,) = world.survivors()
        assert await attempt(world, f"os.kill({other}, 9)", kind="coding") == "EPERM"
        assert await attempt(world, f"open('/proc/{other}/environ').read()", kind="coding") == "EACCES"


async def test_a_signal_to_everybody_reaches_nobody_outside(world):
    """The kernel calls it a success even if every single one was refused; so somebody listens."""
    if world.backend.abi < SCOPE_ABI:
        pytest.skip("this kernel's Landlock has no scope for signals")
    heard: list[int] = []
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGURG, heard.append, 1)
    try:
        # One that does nothing to those who do not listen: a failure must not end the machine's processes.
        await attempt(world, f"os.kill(-1, {int(signal.SIGURG)})", kind="coding")
        assert heard == []
        os.kill(os.getpid(), signal.SIGURG)
        assert await eventually(lambda: heard == [1])
    finally:
        loop.remove_signal_handler(signal.SIGURG)


@pytest.mark.parametrize("reach", ["offline", "another port is open"])
@pytest.mark.parametrize("name", SOCKETS)
async def test_nobody_is_reached_by_any_socket(world, listener, name, reach):
    body, refusals = SOCKETS[name]
    ports = frozenset() if reach == "offline" else frozenset({1})
    assert await attempt(world, body, kind="coding", listener=listener, ports=ports) in refusals


async def test_a_listed_port_is_reached_by_tcp_and_by_nothing_else(world, listener):
    opened = {"kind": "coding", "listener": listener, "ports": frozenset({listener.port})}
    assert (await attempt(world, SOCKETS["tcp"][0], **opened)).startswith("reached")
    for name in ("udp", "multipath tcp", "tcp fast open", "bind", "listen without bind", "unix by path"):
        assert await attempt(world, SOCKETS[name][0], **opened) == "EACCES", name


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are x86_64's")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", KERNEL)
async def test_the_kernels_other_doors_are_shut(world, name, kind):
    body, refusals = KERNEL[name]
    assert await attempt(world, body, kind=kind) in refusals


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="there is no such instruction")
async def test_calls_by_the_old_32_bit_door_end_the_process(world):
    code = (
        "import ctypes, mmap\n"
        "page = mmap.mmap(-1, 4096, prot=7)\n"
        "page.write(b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3')\n"
        "call = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))\n"
        "print('reached', call())\n"
    )
    done = await world.python(code)
    assert done.ended.reason is EndReason.signalled
    assert done.out == ""


# -- privileges --


async def test_there_are_no_capabilities_and_none_can_come_back(world):
    code = (
        "import ctypes\n"
        "libc = ctypes.CDLL(None)\n"
        "data = (ctypes.c_uint32 * 6)()\n"
        "libc.capget((ctypes.c_uint32 * 2)(0x20080522, 0), data)\n"
        "bounding = sum(libc.prctl(23, number, 0, 0, 0) == 1 for number in range(41))\n"
        "print(list(data), libc.prctl(39, 0, 0, 0, 0), bounding)\n"
    )
    done = await world.python(code)
    capabilities, no_new_privileges, bounding = done.out.strip().rsplit(" ", 2)
    assert capabilities == "[0, 0, 0, 0, 0, 0]"
    assert no_new_privileges == "1"
    if os.getuid() == 0:
        assert bounding == "0"


async def test_a_setuid_program_gives_nothing(world):
    done = await world.shell("grep -m1 NoNewPrivs /proc/self/status; id -u; su -c 'id -u' root < /dev/null")
    assert str(os.getuid()) in done.out.split()
    assert done.ended.exit_code != 0 or os.getuid() == 0


async def test_as_root_the_owners_of_other_files_keep_them(world):
    """Root without capabilities is bound by permissions, inside the roots as well."""
    if os.getuid() != 0:
        pytest.skip("only root may give a file away")
    theirs = world.inside / "theirs"
    theirs.write_text("private")
    theirs.chmod(0o600)
    os.chown(theirs, 12345, 12345)
    assert await attempt(world, "open(inside + '/theirs').read()", kind="coding") == "EACCES"
    assert await attempt(world, "os.chown(inside + '/file', 12345, 12345)", kind="coding") == "EPERM"


# -- metadata --


def facts(file: Path) -> tuple[int, int, int, int]:
    found = file.stat(follow_symlinks=False)
    return found.st_mode, found.st_uid, found.st_mtime_ns, found.st_ctime_ns


@pytest.fixture
def linked(world):
    for place in (world.inside, world.outside):
        for name in ("inside", "outside"):
            (place / f"link-{name}").symlink_to(world.place / name / "file")
    return world


def snapshot(folder: Path) -> list[tuple[int, int, int, int]]:
    return [facts(path) for path in sorted(folder.iterdir())]


@pytest.mark.parametrize("place", ["inside", "outside"])
@pytest.mark.parametrize("name", METADATA)
async def test_a_profile_that_writes_nothing_changes_no_metadata(linked, name, place):
    before = snapshot(linked.inside) + snapshot(linked.outside)
    assert await attempt(linked, METADATA[name].replace("{place}", place), kind="chat") == "EPERM"
    assert snapshot(linked.inside) + snapshot(linked.outside) == before


@pytest.mark.parametrize("name", METADATA)
async def test_a_profile_that_writes_changes_metadata_inside_in_every_form(linked, name):
    if "old" in name and os.uname().machine != "x86_64":
        pytest.skip("this architecture never had it")
    if "cwd" in METADATA[name]:
        pytest.skip("a name that means another file to the supervisor is refused everywhere")
    before = snapshot(linked.inside)
    body = METADATA[name].replace("{place}", "inside")
    assert (await attempt(linked, body, kind="coding")).startswith("reached")
    assert snapshot(linked.inside) != before
    if "chmod" in name:
        assert (linked.inside / "file").stat().st_mode & 0o777 == 0o777
    elif "utime" in name and "now" not in name and "link" not in name:
        assert (linked.inside / "file").stat().st_mtime == 1


@pytest.mark.parametrize("name", METADATA)
async def test_a_profile_that_writes_changes_no_metadata_outside_in_any_form(linked, name):
    before = snapshot(linked.outside)
    body = METADATA[name].replace("{place}", "outside")
    # /proc/self is the supervisor's own, and its folder has no such file.
    expected = "ENOENT" if "/proc/self/cwd" in body else "EPERM"
    assert await attempt(linked, body, kind="coding") == expected
    assert snapshot(linked.outside) == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OF_THE_SYSTEM)
async def test_the_systems_files_keep_their_metadata_though_they_can_be_opened(world, name, kind):
    system = Path("/usr/bin/env").resolve()
    before = facts(system)
    body = OF_THE_SYSTEM[name].replace("SYSTEM", repr(str(system)))
    assert await attempt(world, body, kind=kind) == "EPERM"
    assert facts(system) == before


@pytest.mark.parametrize("name", SET_ID)
async def test_no_file_is_made_that_runs_as_its_owner(world, name):
    if "call" in name and os.uname().machine != "x86_64":
        pytest.skip("the numbers are x86_64's")
    assert await attempt(world, SET_ID[name], kind="coding") in ("EPERM", "ENOSYS")
    assert [path for path in world.inside.iterdir() if path.stat().st_mode & 0o6000] == []


async def test_a_caller_that_rewrites_its_path_while_it_is_judged_gains_nothing(world):
    """The path lies in memory that another thread flips between an inside and an outside name."""
    body = (
        "import threading\n"
        "names = [(inside + '/file').encode() + b'\\0', (outside + '/file').encode() + b'\\0']\n"
        "memory = ctypes.create_string_buffer(max(map(len, names)))\n"
        "until = time.monotonic() + 0.7\n"
        "def flip():\n"
        "    while time.monotonic() < until:\n"
        "        for name in names: ctypes.memmove(memory, name, len(name))\n"
        "threading.Thread(target=flip).start()\n"
        "done = 0\n"
        "while time.monotonic() < until:\n"
        "    done += libc.chmod(memory, 0o777) == 0\n"
        "return done > 0"
    )
    before = snapshot(world.outside)
    assert await attempt(world, body, kind="coding") == "reached True"
    assert snapshot(world.outside) == before


async def test_a_folder_that_is_swapped_for_a_link_while_it_is_judged_gains_nothing(world):
    body = (
        "import threading\n"
        "os.mkdir(inside + '/a'); open(inside + '/a/file', 'w').close()\n"
        "os.symlink(outside, inside + '/b')\n"
        "until = time.monotonic() + 0.7\n"
        "def flip():\n"
        "    while time.monotonic() < until:\n"
        "        call(316, -100, (inside + '/a').encode(), -100, (inside + '/b').encode(), 2)\n"
        "threading.Thread(target=flip).start()\n"
        "done = 0\n"
        "while time.monotonic() < until:\n"
        "    done += libc.chmod((inside + '/a/file').encode(), 0o777) == 0\n"
        "return done > 0"
    )
    before = snapshot(world.outside)
    assert await attempt(world, body, kind="coding") == "reached True"
    assert snapshot(world.outside) == before


async def test_a_bad_pointer_or_descriptor_is_the_callers_own_mistake(world):
    assert await attempt(world, "call(90, 8, 0o777)", kind="coding") == "EFAULT"
    assert await attempt(world, "call(90, (1 << 63) - 1, 0o777)", kind="coding") == "EFAULT"
    assert await attempt(world, "os.fchmod(77, 0o777)", kind="coding") == "EBADF"
    assert await attempt(world, "os.chmod(inside + '/missing', 0o777)", kind="coding") == "ENOENT"
    assert (
        await attempt(world, "os.chmod(inside + '/' + 'x/' * 3000, 0o777)", kind="coding") == "ENAMETOOLONG"
    )


async def test_a_profile_that_writes_nothing_watches_nothing(world):
    assert await attempt(world, "call(294, 0)", kind="chat") == "ENOSYS"


@pytest.mark.parametrize(
    "body", ["os.stat(outside + '/file')", "os.access(outside, os.R_OK)", "os.chdir(outside)"]
)
async def test_open_because_landlock_has_no_right_for_it_names_and_sizes_outside_can_be_asked_for(
    world, body
):
    assert (await attempt(world, body, kind="chat")).startswith("reached")


async def test_open_in_coding_because_tools_need_it_changes_outside_can_be_watched(world):
    body = "call(254, call(294, 0), outside.encode(), 0xfff)"
    assert (await attempt(world, body, kind="coding")).startswith("reached")


async def test_open_because_it_gains_nothing_a_file_without_leave_can_be_executed_from_memory(world):
    code = (
        "import os, sys\n"
        "fd = os.memfd_create('x', 0)\n"
        "os.write(fd, open('/bin/cat', 'rb').read())\n"
        "os.execve(fd, ['cat', sys.argv[1]], {})\n"
    )
    done = await world.python(code, str(world.outside / "file"))
    assert "Permission denied" in done.err
    assert SECRET not in done.both


async def test_open_without_a_quota_many_files_can_fill_the_disk_but_each_is_bounded(world):
    done = await world.shell(
        "for n in 1 2 3; do dd if=/dev/zero of=$n bs=64k count=12 2> /dev/null; done; ls"
    )
    assert {"1", "2", "3"} <= set(done.out.split())


# -- what must work --


async def test_devices_that_harm_nobody_work(world):
    done = await world.shell(
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
async def test_ordinary_programs_work_where_nothing_may_be_written(world, argv, expected):
    if not Path(argv[0]).exists():
        pytest.skip(f"{argv[0]} is not installed")
    done = await world.run(*argv, kind="chat", environment={"HOME": "/nowhere"}, limits=JobLimits())
    assert done.ended.exit_code == 0, done
    assert expected in done.out
    assert done.err == ""


async def test_git_commits_where_it_may_write(world):
    home = world.place / "home"
    home.mkdir()
    script = (
        "git init -q . && git add file && git -c user.name=a -c user.email=a@b commit -qm first && "
        "git log --oneline | wc -l && cp -p file copy && chmod 755 copy && echo x > $HOME/private"
    )
    done = await world.shell(script, environment={"HOME": str(home)}, private_folders=(home,))
    assert (done.out.strip(), done.ended.exit_code) == ("1", 0), done
    assert (home / "private").exists()


async def test_not_usable_because_shared_memory_is_everybodys_pythons_locks_between_processes(world):
    done = await world.python("import _multiprocessing as m; m.SemLock(1, 1, 1, '/interlock', True)")
    assert "PermissionError" in done.err


async def test_extra_readable_paths_are_read_and_missing_ones_are_no_error(world):
    extra = (world.outside / "file", world.place / "missing")
    done = await world.run("/bin/cat", str(world.outside / "file"), readable_paths=extra)
    assert done.out == SECRET
