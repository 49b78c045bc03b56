"""The attacks of the launcher's walls, once more under bubblewrap: what is not opened does not exist."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import pytest_asyncio

from interlock.config.protected_names import PROTECTED_NAMES
from interlock.sandbox.child.landlock import NETWORK_ABI, abi_version
from interlock.sandbox.jobs import ExitReason, Job
from interlock.sandbox.profile import SandboxProfile
from tests.escape.attempts import FILES, KERNEL, METADATA, PROCESSES, SOCKETS
from tests.escape.conftest import attacked

# Run once more, with the `world` below.
from tests.escape.test_launcher_metadata import (  # noqa: F401
    test_a_bad_pointer_or_descriptor_is_the_callers_own_mistake,
    test_a_profile_that_writes_changes_metadata_inside_in_every_form,
    test_no_file_is_made_that_runs_as_its_owner,
)
from tests.escape.test_launcher_openings import (  # noqa: F401
    test_devices_that_harm_nobody_work,
    test_extra_readable_paths_are_read_and_missing_ones_are_no_error,
    test_git_commits_where_it_may_write,
    test_open_without_a_quota_many_files_can_fill_the_disk_but_each_is_bounded,
    test_ordinary_programs_work_where_nothing_may_be_written,
)
from tests.escape.test_launcher_walls import (  # noqa: F401
    test_a_job_may_signal_and_list_what_it_started_itself,
    test_a_setuid_program_gives_nothing,
    test_as_root_the_owners_of_other_files_keep_them,
    test_calls_by_the_old_32_bit_door_end_the_process,
    test_the_kernels_other_doors_are_shut,
)
from tests.escape.trying import KINDS, attempt, snapshot
from tests.escape.wrapped import wrapped
from tests.harness.case_tables import daily
from tests.harness.sandbox import SECRET, finished

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Besides refusing: there is no such file or process, or the mount is read-only.
ABSENT = ("ENOENT", "ESRCH", "EROFS", "ENOTDIR")

# These come through, to what is the job's own.
OWN = {"list the root of all", "list etc", "list processes", "signal the supervisor"}


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox(tmp_path):
    backend = wrapped()
    with attacked(backend, tmp_path, []) as made:
        yield made
        await backend.close()


def named(cases) -> list[str]:
    return [name for name in cases if name not in OWN]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", daily(named(FILES), 5))
async def test_files_outside_are_out_of_reach(sandbox, name, kind):
    (sandbox.outside / "empty").mkdir()
    (sandbox.inside / "link-out").symlink_to(sandbox.outside / "file")
    body, refusals = FILES[name]
    assert await attempt(sandbox, body, kind=kind) in (*refusals, *ABSENT)
    assert sorted(path.name for path in sandbox.outside.iterdir()) == ["empty", "file"]
    assert (sandbox.outside / "file").read_text() == SECRET


@pytest.mark.parametrize(
    "body",
    ["os.stat(outside + '/file')", "os.chdir(outside)", "call(254, call(294, 0), outside.encode(), 0xfff)"],
)
async def test_not_even_the_names_outside_can_be_asked_for(sandbox, body):
    assert await attempt(sandbox, body, kind="coding") == "ENOENT"


async def test_the_root_and_etc_hold_only_what_is_opened(sandbox):
    assert await attempt(sandbox, "return '/boot' in os.listdir('/')", kind="chat") == "reached"
    done = await sandbox.shell("ls -a / /etc /dev; ls /home /var /tmp /etc/ssl/private")
    assert not {"boot", "shadow", "sda", "vda", "shm", "ptmx", "tty"} & set(done.out.split())
    assert done.ended.exit_code != 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["/", "/dev", "/etc", "/var", "/usr", "/proc"])
async def test_nothing_can_be_made_between_the_mounts(sandbox, place, kind):
    assert await attempt(sandbox, f"open('{place}/new', 'x')", kind=kind) in (*ABSENT, "EACCES")


@pytest.mark.parametrize(
    "name", ["sys/kernel/core_pattern", "sys/kernel/hostname", "sys/vm/swappiness", "self/oom_score_adj"]
)
async def test_the_kernels_switches_are_read_only_for_root_too(sandbox, name):
    """Root owns them, and needs no capability to write them: bubblewrap alone leaves them open."""
    refusals = ("EROFS",) if os.getuid() == 0 else ("EROFS", "EACCES")
    assert await attempt(sandbox, f"os.open('/proc/{name}', os.O_WRONLY)", kind="coding") in refusals


@pytest.mark.parametrize("name", [name for name in KERNEL if name.startswith(("a device", "the name"))])
async def test_no_device_and_no_socket_can_be_made(sandbox, name):
    assert await attempt(sandbox, KERNEL[name][0], kind="coding") in KERNEL[name][1]


@pytest.mark.parametrize("name", daily(named(PROCESSES), 4))
async def test_other_processes_are_out_of_reach(sandbox, name):
    body, refusals = PROCESSES[name]
    assert await attempt(sandbox, body, kind="coding") in (*refusals, *ABSENT)


async def test_only_its_own_processes_can_be_seen(sandbox):
    done = await sandbox.shell("for n in /proc/[0-9]*; do echo ${n#/proc/}; done")
    assert {int(pid) for pid in done.out.split()} <= set(range(1, 6))
    assert str(os.getpid()) not in done.out.split()


async def test_the_first_process_keeps_its_memory_and_its_descriptors(sandbox):
    for body in (
        "open('/proc/1/mem', 'rb')",
        "os.open('/proc/1/fd/0', 0)",
        "os.listdir('/proc/1/cwd/')",
        "open('/proc/1/environ', 'rb').read()",
    ):
        assert await attempt(sandbox, body, kind="coding") in ("EACCES", "EPERM"), body


@pytest.mark.parametrize("reach", ["offline", "another port is open"])
@pytest.mark.parametrize("name", daily(SOCKETS, 4))
async def test_nobody_is_reached_by_any_socket(sandbox, listener, name, reach):
    body, refusals = SOCKETS[name]
    ports = frozenset() if reach == "offline" else frozenset({1})
    assert await attempt(sandbox, body, kind="coding", listener=listener, ports=ports) in (
        *refusals,
        *ABSENT,
    )


async def test_a_listed_port_is_reached_by_tcp_and_by_nothing_else(sandbox, listener):
    if abi_version() < NETWORK_ABI:
        pytest.skip("this kernel has no rules for ports")
    opened = {"kind": "coding", "listener": listener, "ports": frozenset({listener.port})}
    assert (await attempt(sandbox, SOCKETS["tcp"][0], **opened)).startswith("reached")
    for name in ("udp", "multipath tcp", "tcp fast open", "bind", "listen without bind", "unix by path"):
        assert await attempt(sandbox, SOCKETS[name][0], **opened) == "EACCES", name


async def test_without_rules_for_ports_there_is_no_network_at_all(sandbox, listener, monkeypatch):
    monkeypatch.setattr("interlock.sandbox.child.landlock.abi_version", lambda: NETWORK_ABI - 1)
    opened = {"kind": "coding", "listener": listener, "ports": frozenset({listener.port})}
    assert await attempt(sandbox, SOCKETS["tcp"][0], **opened) == "EACCES"


async def test_there_are_no_capabilities_and_none_can_come_back(sandbox):
    done = await sandbox.shell(
        "grep -E '^(CapInh|CapPrm|CapEff|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status"
    )
    facts = dict(line.split() for line in done.out.splitlines())
    assert {facts[name] for name in ("CapInh:", "CapPrm:", "CapEff:", "CapAmb:")} == {"0" * 16}
    assert (facts["NoNewPrivs:"], facts["Seccomp:"]) == ("1", "2")


async def test_each_job_has_namespaces_of_its_own(sandbox):
    kinds = ("pid", "net", "ipc", "uts", "mnt")
    done = await sandbox.shell("for n in pid net ipc uts mnt; do readlink /proc/self/ns/$n; done")
    ours = [str(Path("/proc/self/ns", kind).readlink()) for kind in kinds]
    assert not set(ours) & set(done.out.split())


@pytest.mark.parametrize("place", ["inside", "outside"])
@pytest.mark.parametrize("name", daily(METADATA, 4))
async def test_a_profile_that_writes_nothing_changes_no_metadata(linked, name, place):
    before = snapshot(linked.place)
    body = METADATA[name].replace("{place}", place)
    assert not (await attempt(linked, body, kind="chat")).startswith("reached")
    assert snapshot(linked.place) == before


@pytest.mark.parametrize("name", daily(METADATA, 4))
async def test_a_profile_that_writes_changes_no_metadata_outside(linked, name):
    before = snapshot(linked.outside)
    body = METADATA[name].replace("{place}", "outside")
    assert not (await attempt(linked, body, kind="coding")).startswith("reached")
    assert snapshot(linked.outside) == before


# -- protected names --


async def protected_shell(sandbox, script: str):
    profile = SandboxProfile((sandbox.inside,), (sandbox.inside,), protected_names=PROTECTED_NAMES)
    job = Job(("/bin/sh", "-c", script), sandbox.folder, {"PATH": "/usr/bin:/bin"}, profile)
    async with sandbox.backend.running(job) as child:
        done = await finished(child)
    assert done.ended.reason is ExitReason.exited, done
    return done


@pytest.fixture
def repository(sandbox):
    folder = sandbox.inside / "deep" / "project"
    folder.mkdir(parents=True)
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / ".git" / "hooks").mkdir(exist_ok=True)
    (folder / ".git" / "modules" / "a" / "b" / "hooks").mkdir(parents=True)
    (folder / ".VSCode").mkdir()
    (folder / ".bashrc").write_text("mine\n")
    return folder


@pytest.mark.parametrize(
    "script",
    [
        "echo x > .git/hooks/pre-commit",
        "echo x >> .git/config",
        "rm .git/config",
        "mv .git/config .git/other",
        "mv .git/hooks .git/other",
        "mv .git other",
        "rm -rf .git/hooks",
        "rmdir .git/modules/a/b/hooks",
        "mv .git/modules .git/other",
        "echo x > .git/modules/a/b/hooks/post-checkout",
        "echo x > .VSCode/tasks.json",
        "chmod 777 .bashrc",
        "ln -f /dev/null .bashrc",
        "cp /dev/null .bashrc",
        "mv README .bashrc",
        "touch -d 2000-01-01 .git/config",
        "git config core.hooksPath /elsewhere",
    ],
)
async def test_protected_names_that_exist_cannot_be_written(sandbox, repository, script):
    (repository / "README").write_text("new\n")
    config = (repository / ".git" / "config").read_bytes()
    done = await protected_shell(sandbox, f"cd deep/project && {script}")
    assert done.ended.exit_code != 0, done
    assert (repository / ".git" / "config").read_bytes() == config
    assert list((repository / ".git" / "hooks").glob("pre-commit")) == []
    assert (repository / ".bashrc").read_text() == "mine\n"
    assert (repository / ".git" / "modules" / "a" / "b" / "hooks").is_dir()


async def test_beside_protected_names_everything_works(sandbox, repository):
    script = (
        "cd deep/project && echo x > a && git add a && "
        "git -c user.name=a -c user.email=a@b commit -qm first && git branch other && "
        "git checkout -q other && mv a b && mkdir new && git log --oneline | wc -l"
    )
    done = await protected_shell(sandbox, script)
    assert (done.out.strip(), done.ended.exit_code) == ("1", 0), done


async def test_nothing_is_made_where_a_protected_name_is_missing(sandbox):
    (sandbox.inside / ".git").mkdir()
    done = await protected_shell(sandbox, "mv .git other")
    assert done.ended.exit_code != 0
    assert list((sandbox.inside / ".git").iterdir()) == []


async def test_open_because_nothing_can_be_mounted_there_a_missing_protected_name_can_be_made(sandbox):
    """The runner puts it back and reports it, as under Landlock."""
    (sandbox.inside / ".git").mkdir()
    done = await protected_shell(sandbox, "mkdir .git/hooks && echo x > .git/hooks/pre-commit")
    assert done.ended.exit_code == 0
