"""Thousands of attempts to change something by `bash_readonly`: programs x files x ways, and raw calls.

What would tell is the kernel's own time of the last change, of everything in and around the opened folder.
"""

import itertools
import os
import shlex
from pathlib import Path

import pytest

from interlock.config.modes import ToolMode
from interlock.sandbox.jobs import JobLimits
from tests.harness.store import StoreHarness
from tests.harness.tool_calls import ToolHarness

SHARED = ("/tmp/interlock-attempt", "/dev/shm/interlock-attempt")  # noqa: S108 - where nothing may come
TARGETS = (
    *("file", "folder", "folder/inner", "link", "out", "pipe", "new", "folder/new", ".git/config"),
    *("$OUTSIDE/canary", "$OUTSIDE/new", *SHARED, "~/new"),
)
WAYS = (
    *("echo x > {0}", "echo x >> {0}", ": >| {0}", "exec 3<> {0}", "exec 4>{0}; echo x >&4"),
    *(
        "rm -rf {0}",
        "rmdir {0}",
        "unlink {0}",
        "shred -u {0}",
        "truncate -s 1 {0}",
        "dd if=/dev/zero of={0} count=1",
    ),
    *("dd if=/dev/null of={0} conv=notrunc,fsync", "fallocate -l 9 {0}", "fallocate -p -l 1 {0}"),
    *(
        "mv {0} {0}.moved",
        "mv -T attack {0}",
        "cp attack {0}",
        "cp --reflink=auto attack {0}",
        "cp -al {0} {0}.copy",
    ),
    *(
        "ln {0} {0}.hard",
        "ln -s x {0}.soft",
        "ln -sfn x {0}",
        "link {0} {0}.hard",
        "install -m 777 attack {0}",
    ),
    *("mkdir {0}.d", "mkdir -p {0}/a/b", "mkfifo {0}.pipe", "mknod {0}.node p", "mknod {0}.null c 1 3"),
    *(
        "chmod 777 {0}",
        "chmod -R a+rwx {0}",
        "chmod --reference=attack {0}",
        "chown 1:1 {0}",
        "chgrp 1 {0}",
    ),
    *(
        "chown -h 1 {0}",
        "touch {0}",
        "touch -a {0}",
        "touch -hd 2001-01-01 {0}",
        "touch -r /etc/passwd {0}",
    ),
    *("setfattr -n user.x -v 1 {0}", "setfacl -m u:1:rwx {0}", "chattr +i {0}", "sed -i s/a/b/ {0}"),
    *("tee {0} < attack", "tee -a {0} < attack", "split -b 1 attack {0}", "csplit -f {0} attack 1"),
    *(
        "sort -o {0} attack",
        "tar cf {0} attack",
        "gzip -kf {0}",
        "bzip2 -kf {0}",
        "xz -kf {0}",
        "zip {0} attack",
    ),
    *("patch {0} attack", "ed -s {0} <<< w", "rsync attack {0}", "mktemp -p {0}", "flock {0} touch {0}"),
    *(
        "git init {0}",
        "git config -f {0} a.b c",
        "git -C {0} add -A",
        "git hash-object -w attack",
        "git gc",
    ),
    *(
        "find {0} -delete",
        "find {0} -fprint {0}.list",
        "find {0} -exec touch '{{}}' +",
        "sync {0}",
        "mount --bind . {0}",
    ),
    *(
        "awk 'BEGIN{{print 1 > \"{0}\"}}'",
        "perl -e 'unlink \"{0}\"'",
        "perl -i -pe s/a/b/ {0}",
        "vi -es -c w {0}",
    ),
    *("python3 -c 'import os; os.utime(\"{0}\")'", 'python3 -c \'open("{0}", "r+b").truncate(0)\''),
    *(
        'python3 -c \'import os; os.rename("{0}", "{0}x")\'',
        "python3 -m compileall -q {0}",
        "/bin/sh -c '> {0}'",
    ),
    *(
        "env -i /bin/bash -c '>{0}'",
        "setsid bash -c '>{0}' & wait",
        "(cd {0} && touch x)",
        "trap '>{0}' EXIT",
    ),
)
PER_COMMAND = 48

CALLS = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
# read, write, poll, fork, exit, and what only waits
SKIPPED = {0, 1, 7, 15, 22, 23, 34, 35, 56, 57, 58, 60, 61, 130, 219, 230, 231, 232, 270, 271, 281, 322}
done = 0
for path in map(os.fsencode, sys.argv[1:]):
    held = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    folder = os.open(os.path.dirname(path) or b'.', os.O_RDONLY)
    name = ctypes.create_string_buffer(os.path.basename(path))
    where, other = ctypes.create_string_buffer(path), ctypes.create_string_buffer(path + b'.x')
    block, at = ctypes.create_string_buffer(256), ctypes.c_long(-100)
    shapes = [
        (where, 0o777, 0o777, 0, 0), (where, other, 0, 0, 0), (where, 0o1101, 0o666, 0, 0),
        (where, block, 8, 0, 0), (at, where, 0o777, 0, 0), (at, where, 0o1102, 0o666, 0),
        (at, where, at, other, 0), (at, where, block, 0, 0), (held, 0o777, 0o777, 0, 0),
        (held, block, 8, 0, 0), (held, 0, 0, 8, 0), (held, b'user.x', b'1', 1, 0),
        (folder, name, 0o777, 0, 0), (folder, name, folder, other, 0), (folder, name, 0, 0, 0),
        (held, 3, 0, 8, 0), (folder, name, 0o40, b'x', 24), (at, where, 0, block, 24),
    ]
    for first in range(0, 470, 10):
        pid = os.fork()
        if pid == 0:
            os.closerange(1, 3)
            for number in range(first, first + 10):
                if number in SKIPPED:
                    continue
                inner = os.fork()
                if inner == 0:
                    signal.alarm(1)
                    for shape in shapes:
                        libc.syscall(ctypes.c_long(number), *shape)
                    os._exit(0)
                os.waitpid(inner, 0)
            os._exit(0)
        os.waitpid(pid, 0)
        done += 10 * len(shapes)
print(done)
"""


@pytest.fixture
async def shell(sqlite_store: StoreHarness, tmp_path):
    session = await sqlite_store.sessions.create(opened_by="test")
    bench = ToolHarness(sqlite_store, session.id, tmp_path)
    bench.job_limits = JobLimits(processes=32, memory_bytes=256 * 2**20, file_bytes=2**20, cpu_seconds=60)
    bench.write("file", "abc\n")
    bench.write("attack", "attack\n")
    bench.write("folder/inner", "inner\n")
    bench.write(".git/config", "[core]\n")
    (bench.outside / "canary").write_text("canary\n")
    (bench.root / "link").symlink_to("file")
    (bench.root / "out").symlink_to(bench.outside / "canary")
    os.mkfifo(bench.root / "pipe")
    await bench.open_sandbox()
    yield bench
    await bench.backend.close()


def state(shell: ToolHarness) -> dict[str, tuple[int, ...]]:
    """Everything that the kernel would have marked, and places that must not come to be."""
    paths = [shell.root, *shell.root.rglob("*"), shell.outside, *shell.outside.rglob("*")]
    found = {}
    for path in paths:
        status = path.lstat()
        found[str(path)] = (
            status.st_ino,
            status.st_mode,
            status.st_size,
            status.st_nlink,
            status.st_ctime_ns,
        )
    for name in SHARED:
        found |= {str(path): () for path in Path(name).parent.glob(f"{Path(name).name}*")}
    return found


def attempts(shell: ToolHarness) -> list[str]:
    targets = [target.replace("$OUTSIDE", str(shell.outside)) for target in TARGETS]
    return [way.format(target) for way, target in itertools.product(WAYS, targets)]


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.full)], ids=["some", "all"])
async def test_a_thousand_ways_to_write_change_nothing(shell: ToolHarness, step):
    every = attempts(shell)
    assert len(every) > 1000
    # Shifted by one from way to way, so that every target has its turn.
    chosen = [text for number, text in enumerate(every) if (number + number // len(TARGETS)) % step == 0]
    batches = [chosen[at : at + PER_COMMAND] for at in range(0, len(chosen), PER_COMMAND)]
    for number, some in enumerate(batches):
        lines = [f"( timeout 0.5 bash -c {shlex.quote(text)} ) </dev/null" for text in some]
        # Where the judge of commands does not look: what holds is the kernel.
        shell.write(f"batch{number}", "\n".join([*lines, "echo ran"]))
    before = state(shell)
    for number, some in enumerate(batches):
        shell.mode = (ToolMode.chat, ToolMode.plan, ToolMode.coding)[number % 3]
        result = await shell.call("bash_readonly", cmd=f"bash batch{number}", timeout_seconds=60)
        assert result.stdout.endswith("ran\n")
        assert state(shell) == before, some


@pytest.mark.full
async def test_every_way_by_itself(shell: ToolHarness):
    before = state(shell)
    for mode, text in itertools.product((ToolMode.chat, ToolMode.coding), attempts(shell)):
        shell.mode = mode
        await shell.call("bash_readonly", cmd=text, timeout_seconds=3)
        assert state(shell) == before, text


@pytest.mark.full
async def test_every_system_call_with_every_shape_of_arguments(shell: ToolHarness):
    shell.write("calls.py", CALLS)
    before = state(shell)
    command = "python3 calls.py file folder folder/inner .git/config"
    result = await shell.call("bash_readonly", cmd=command, timeout_seconds=400)
    assert int(result.stdout) > 30_000, result
    assert state(shell) == before
