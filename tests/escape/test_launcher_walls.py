"""What a job cannot do, tried from within: files, processes, sockets, the kernel, privileges."""

import asyncio
import os
import signal
import subprocess

import pytest

from interlock.sandbox.jobs import ExitReason, Job
from interlock.sandbox.profile import SandboxProfile
from tests.escape.attempts import DENIED, FILES, KERNEL, PROCESSES, SOCKETS, program
from tests.escape.trying import KINDS, attempt
from tests.harness.sandbox import PYTHON, SECRET, SOON_SECONDS, eventually, finished

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def sandbox(shared_sandbox):
    return shared_sandbox


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FILES)
async def test_files_outside_are_out_of_reach(sandbox, name, kind):
    (sandbox.outside / "empty").mkdir()
    (sandbox.inside / "link-out").symlink_to(sandbox.outside / "file")
    body, refusals = FILES[name]
    assert await attempt(sandbox, body, kind=kind) in refusals
    assert sorted(path.name for path in sandbox.outside.iterdir()) == ["empty", "file"]
    assert (sandbox.outside / "file").read_text() == SECRET


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
async def test_a_profile_that_only_reads_changes_nothing_inside_and_one_that_writes_does(sandbox, body):
    before = sorted((path.name, path.read_bytes()) for path in sandbox.inside.iterdir())
    assert await attempt(sandbox, body, kind="chat") in ("EACCES", "EXDEV")
    assert sorted((path.name, path.read_bytes()) for path in sandbox.inside.iterdir()) == before
    assert (await attempt(sandbox, body, kind="coding")).startswith("reached")


@pytest.mark.parametrize(
    "body",
    [
        "os.link(outside + '/file', inside + '/new')",
        "os.rename(outside + '/file', inside + '/new')",
        "os.rename(inside + '/file', outside + '/file')",
        "os.rename(inside, outside + '/moved')",
    ],
)
async def test_what_may_only_be_read_does_not_become_writable_by_another_name(sandbox, body):
    job = Job(
        (PYTHON, "-I", "-S", "-c", program(body), str(sandbox.outside), str(sandbox.inside), "1", "1", "x"),
        *(sandbox.folder, {}, SandboxProfile((sandbox.inside, sandbox.outside), (sandbox.inside,))),
    )
    async with sandbox.backend.running(job) as child:
        assert (await finished(child)).out.strip() in ("EXDEV", "EACCES")
    assert (sandbox.outside / "file").read_text() == SECRET


@pytest.mark.parametrize("name", PROCESSES)
async def test_other_processes_are_out_of_reach(sandbox, name):
    body, refusals = PROCESSES[name]
    assert await attempt(sandbox, body, kind="coding") in refusals


async def test_a_job_may_signal_and_list_what_it_started_itself(sandbox):
    done = await sandbox.shell("sleep 30 & kill -TERM $! && wait $!; echo $?")
    assert done.out.strip() == "143"


async def test_jobs_cannot_signal_each_other(sandbox):
    async with sandbox.backend.running(sandbox.job("/bin/sleep", "30")):
        assert await eventually(lambda: len(sandbox.survivors()) == 1)
        (other,) = sandbox.survivors()
        assert await attempt(sandbox, f"os.kill({other}, 9)", kind="coding") == "EPERM"
        assert await attempt(sandbox, f"open('/proc/{other}/environ').read()", kind="coding") == "EACCES"


async def test_a_signal_to_everybody_reaches_nobody_outside(sandbox):
    """The kernel calls it a success even if every single one was refused; so somebody listens."""
    heard: list[int] = []
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGURG, heard.append, 1)
    try:
        # One that does nothing to those who do not listen: a failure must not end the machine's processes.
        await attempt(sandbox, f"os.kill(-1, {int(signal.SIGURG)})", kind="coding")
        assert heard == []
        os.kill(os.getpid(), signal.SIGURG)
        assert await eventually(lambda: heard == [1])
    finally:
        loop.remove_signal_handler(signal.SIGURG)


@pytest.mark.parametrize("kind", ["thread", "process", "group"])
async def test_the_owner_of_a_descriptor_gets_no_signal_where_it_is_outside(sandbox, kind):
    """The kernel sends these by itself, when there is something to read."""
    with subprocess.Popen(
        [PYTHON, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    ) as other:
        number = {"thread": 0, "process": 1, "group": 2}[kind]
        body = (
            "import fcntl\n"
            "reading, writing = os.pipe()\n"
            "fcntl.fcntl(reading, 10, 9)\n"
            f"fcntl.fcntl(reading, 15, struct.pack('ii', {number}, {other.pid}))\n"
            "fcntl.fcntl(reading, 4, os.O_ASYNC)\n"
            "os.write(writing, b'x')"
        )
        assert await attempt(sandbox, body, kind="coding") in {"reached", *DENIED}
        other.communicate(b"\n", timeout=SOON_SECONDS)
        assert other.returncode == 0


@pytest.mark.parametrize("reach", ["offline", "another port is open"])
@pytest.mark.parametrize("name", SOCKETS)
async def test_nobody_is_reached_by_any_socket(sandbox, listener, name, reach):
    body, refusals = SOCKETS[name]
    ports = frozenset() if reach == "offline" else frozenset({1})
    assert await attempt(sandbox, body, kind="coding", listener=listener, ports=ports) in refusals


async def test_a_listed_port_is_reached_by_tcp_and_by_nothing_else(sandbox, listener):
    opened = {"kind": "coding", "listener": listener, "ports": frozenset({listener.port})}
    assert (await attempt(sandbox, SOCKETS["tcp"][0], **opened)).startswith("reached")
    for name in ("udp", "multipath tcp", "tcp fast open", "bind", "listen without bind", "unix by path"):
        assert await attempt(sandbox, SOCKETS[name][0], **opened) == "EACCES", name


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are x86_64's")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", KERNEL)
async def test_the_kernels_other_doors_are_shut(sandbox, name, kind):
    body, refusals = KERNEL[name]
    assert await attempt(sandbox, body, kind=kind) in refusals


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="there is no such instruction")
async def test_calls_by_the_old_32_bit_door_end_the_process(sandbox):
    code = (
        "import ctypes, mmap\n"
        "page = mmap.mmap(-1, 4096, prot=7)\n"
        "page.write(b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3')\n"
        "call = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))\n"
        "print('reached', call())\n"
    )
    done = await sandbox.python(code)
    assert done.ended.reason is ExitReason.signalled
    assert done.out == ""


async def test_a_profile_that_writes_nothing_watches_nothing(sandbox):
    assert await attempt(sandbox, "call(294, 0)", kind="chat") == "ENOSYS"


# -- privileges --


async def test_there_are_no_capabilities_and_none_can_come_back(sandbox):
    code = (
        "import ctypes\n"
        "libc = ctypes.CDLL(None)\n"
        "data = (ctypes.c_uint32 * 6)()\n"
        "libc.capget((ctypes.c_uint32 * 2)(0x20080522, 0), data)\n"
        "bounding = sum(libc.prctl(23, number, 0, 0, 0) == 1 for number in range(41))\n"
        "print(list(data), libc.prctl(39, 0, 0, 0, 0), bounding, libc.prctl(27, 0, 0, 0, 0))\n"
    )
    done = await sandbox.python(code)
    capabilities, no_new_privileges, bounding, securebits = done.out.strip().rsplit(" ", 3)
    assert capabilities == "[0, 0, 0, 0, 0, 0]"
    assert no_new_privileges == "1"
    if os.getuid() == 0:
        assert bounding == "0"
        # root is nobody special, for good; no capability is kept, and none is raised for what is executed
        assert int(securebits) == 0b11101111


async def test_a_setuid_program_gives_nothing(sandbox):
    done = await sandbox.shell(
        "grep -m1 NoNewPrivs /proc/self/status; id -u; su -c 'id -u' root < /dev/null"
    )
    assert str(os.getuid()) in done.out.split()
    assert done.ended.exit_code != 0 or os.getuid() == 0


async def test_as_root_the_owners_of_other_files_keep_them(sandbox):
    """Root without capabilities is bound by permissions, inside the roots as well."""
    if os.getuid() != 0:
        pytest.skip("only root may give a file away")
    theirs = sandbox.inside / "theirs"
    theirs.write_text("private")
    theirs.chmod(0o600)
    os.chown(theirs, 12345, 12345)
    assert await attempt(sandbox, "open(inside + '/theirs').read()", kind="coding") == "EACCES"
    assert await attempt(sandbox, "os.chown(inside + '/file', 12345, 12345)", kind="coding") == "EPERM"
