"""`bash` and `bash_readonly` in the real sandbox (S3-6.2.2, S3-6.3, S3-11.bash, S3-12.17)."""

import asyncio
import os
import socket
import tempfile
import time
from pathlib import Path

import pytest

from interlock.config.modes import ToolGroup, ToolMode
from interlock.log.read import iter_stream
from interlock.policy.policy_fields import FsPolicy, ShellPolicy, ToolPolicy
from interlock.sandbox.paths import PathResolver
from interlock.sandbox.unconfined_backend import UnconfinedBackend
from interlock.tools.shell import command_runner
from interlock.tools.shell.output_spool import OutputSpool
from interlock.tools.tool import Effect
from tests.harness.tool_calls import SECRET, ToolHarness
from tests.integration.tools.slowness import Slow


@pytest.fixture
async def shell(harness: ToolHarness):
    """The workbench with a sandbox."""
    await harness.open_sandbox()
    yield harness
    await harness.backend.close()


def test_what_the_shell_tools_declare(harness: ToolHarness):
    tools = {name: harness.registry.entry(name).tool for name in ("bash", "bash_readonly")}
    assert tools["bash"].allowed_modes == {ToolMode.coding}
    assert tools["bash_readonly"].allowed_modes == {ToolMode.chat, ToolMode.plan, ToolMode.coding}
    assert {tool.group for tool in tools.values()} == {ToolGroup.code}
    assert tools["bash"].effect is Effect.exec
    assert tools["bash_readonly"].effect is Effect.read


async def test_without_a_sandbox_they_are_not_available(harness: ToolHarness):
    assert await harness.refused("bash", cmd="true") == "TOOL_NOT_AVAILABLE"
    assert await harness.refused("bash_readonly", cmd="true") == "TOOL_NOT_AVAILABLE"


async def test_a_command_runs_in_the_first_root_and_tells_what_it_wrote(shell: ToolHarness):
    result = await shell.ok("bash", cmd="pwd; echo out; echo err >&2")
    assert result.stdout == f"{shell.root}\nout\n"
    assert result.stderr == "err\n"
    assert result.exit_code == 0


async def test_the_policy_decides_about_commands_that_no_rule_names(shell: ToolHarness):
    shell.policy = ToolPolicy(shell=ShellPolicy(unknown="deny"))
    assert await shell.refused("bash", cmd="ls") == "COMMAND_DENIED"
    assert await shell.refused("bash_readonly", cmd="$(echo ls)") == "COMMAND_DENIED"
    shell.policy = ToolPolicy()
    assert (await shell.call("bash", cmd="ls")).ok


async def test_a_working_folder_is_judged_like_any_path(shell: ToolHarness):
    shell.write("sub/file", "x")
    assert (await shell.ok("bash", cmd="ls", workdir="sub")).stdout == "file\n"
    assert await shell.refused("bash", cmd="ls", workdir="..") == "PATH_DENIED"
    assert await shell.refused("bash", cmd="ls", workdir="nowhere") == "EXECUTION_ERROR"
    assert await shell.refused("bash", cmd="ls", workdir="sub/file") == "EXECUTION_ERROR"


async def test_a_command_that_fails_keeps_its_exit_code_and_output(shell: ToolHarness):
    result = await shell.call("bash", cmd="echo so far; exit 3")
    assert result.failure is not None
    assert (result.exit_code, result.stdout) == (3, "so far\n")
    assert result.failure.error_code.value == "EXECUTION_ERROR"
    assert "exit code 3" in result.failure.message
    assert result.failure.is_an_answer


@pytest.mark.parametrize(
    ("tool", "command", "is_told"),
    [
        ("bash", "echo 'log: /tmp/log: Permission denied' >&2; false", True),
        ("bash", "echo \"PermissionError: Permission denied: '/tmp/x'\" >&2; false", True),
        ("bash", "echo 'log: /srv/log: Permission denied' >&2; false", False),
        ("bash_readonly", "echo 'log: /tmp/log: Permission denied' >&2; false", False),
    ],
)
async def test_who_writes_to_the_shared_temporary_folder_is_told_of_the_own_one(
    shell: ToolHarness, tool, command, is_told
):
    result = await shell.call(tool, cmd=command)
    assert ("$TMPDIR" in result.failure.next_action) is is_told


async def test_a_signal_is_told_in_words(shell: ToolHarness):
    result = await shell.call("bash", cmd="kill -SEGV $$")
    assert "SIGSEGV" in result.failure.message
    assert result.exit_code == 128 + 11


async def test_a_command_that_takes_too_long_is_stopped_and_what_it_wrote_is_shown(shell: ToolHarness):
    began = time.monotonic()
    result = await shell.call("bash", cmd="echo begun; sleep 300 & sleep 300", timeout_seconds=0.5)
    assert result.failure.error_code.value == "TIMEOUT"
    assert result.stdout == "begun\n"
    assert "0.5 seconds" in result.failure.message
    assert time.monotonic() - began < 20
    kind, fields = shell.last_event()
    assert (kind, fields["error_class"]) == ("tool_call.failed", "timeout")


async def test_a_call_may_not_take_longer_than_the_policy_says(shell: ToolHarness):
    from interlock.policy.authority_inputs import CallLimits

    shell.limits = CallLimits(timeout_seconds=0.3, max_timeout_seconds=0.4)
    result = await shell.call("bash", cmd="sleep 60", timeout_seconds=50)
    assert result.failure.error_code.value == "TIMEOUT"
    assert dict(shell.events())["tool_call.started"]["timeout_seconds"] == 0.4


async def test_a_cancelled_command_is_dead_with_all_it_started(shell: ToolHarness):
    mark = f"interlock-test-{os.getpid()}"
    calling = asyncio.ensure_future(
        shell.call("bash", cmd=f"echo $$ > started; exec -a {mark} sleep 300", timeout_seconds=60)
    )
    for _ in range(2000):
        if (shell.root / "started").exists():
            break
        await asyncio.sleep(0.01)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert [path for path in Path("/proc").iterdir() if mark in _command_line(path)] == []
    assert shell.last_event()[1]["error_code"] == "CANCELLED"


def _command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_text()
    except OSError:
        return ""


@pytest.mark.parametrize("tool", ["bash", "bash_readonly"])
async def test_nothing_outside_is_read_or_written(shell: ToolHarness, tool):
    (shell.outside / "canary").write_text("CANARY")
    before = shell.outside_state()
    for command in (
        f"cat {shell.outside}/canary",
        f"echo x > {shell.outside}/new",
        f"rm -rf {shell.outside}/canary",
        f"ln -s {shell.outside}/canary link; cat link",
        "cat /etc/shadow",
        "cat ../outside/canary; cd ../outside && cat canary",
        f"python3 -c \"print(open('{shell.outside}/canary').read())\"",
    ):
        result = await shell.call(tool, cmd=command)
        assert "CANARY" not in result.stdout + result.stderr, command
    assert shell.outside_state() == before


@pytest.mark.parametrize("mode", [ToolMode.chat, ToolMode.plan, ToolMode.coding])
async def test_the_readonly_shell_changes_nothing_in_any_mode(shell: ToolHarness, mode):
    shell.mode = mode
    shell.write("file", "as it was\n")
    for command in (
        "echo x > new",
        "echo x >> file",
        "rm file",
        "mv file other",
        "chmod 777 file",
        "touch file",
        "mkdir folder",
        "ln -s file link",
        "python3 -c \"open('file','w')\"",
        "truncate -s 0 file",
        "cp file copy",
        "git init .",
        "echo x > /tmp/interlock-escape; echo x > /dev/shm/interlock-escape; echo x > ~/x",
    ):
        before = (shell.root / "file").stat()
        await shell.call("bash_readonly", cmd=command)
        after = (shell.root / "file").stat()
        assert (before.st_mtime_ns, before.st_mode) == (after.st_mtime_ns, after.st_mode), command
        assert [path.name for path in shell.root.iterdir()] == ["file"], command
    assert (shell.root / "file").read_text() == "as it was\n"
    assert not Path(tempfile.gettempdir(), "interlock-escape").exists()


async def test_the_readonly_shell_is_useful(shell: ToolHarness):
    shell.write("b.txt", "b\n")
    shell.write("a.txt", "a\n")
    result = await shell.ok("bash_readonly", cmd="sort b.txt a.txt | uniq -c; find . -name '*.txt' | wc -l")
    assert result.stdout.split() == ["1", "a", "1", "b", "2"]
    assert (await shell.ok("bash_readonly", cmd="python3 -c 'print(6*7)'")).stdout == "42\n"
    assert (await shell.ok("bash_readonly", cmd="git --version && jq -n 1 || true")).stdout


async def test_the_environment_is_a_short_list_without_the_servers_secrets(shell: ToolHarness, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-server")
    result = await shell.ok("bash", cmd="env; cat /proc/self/environ 2>/dev/null; true")
    assert "sk-of-the-server" not in result.stdout
    names = {line.split("=")[0] for line in result.stdout.splitlines() if "=" in line}
    assert {"PATH", "HOME", "TMPDIR"} <= names
    assert not {name for name in names if name.startswith(("INTERLOCK", "OPENAI", "TOOL_", "XDG_"))}


async def test_home_and_temporary_folder_are_private_and_gone_afterwards(shell: ToolHarness):
    result = await shell.ok("bash", cmd='echo x > ~/kept; echo x > "$TMPDIR/kept"; echo "$HOME" "$TMPDIR"')
    home, temporary = result.stdout.split()
    assert await is_gone(Path(home))
    assert await is_gone(Path(temporary))
    assert (await shell.ok("bash", cmd="ls ~")).stdout == ""


async def test_long_output_is_paged_without_running_the_command_again(shell: ToolHarness):
    arguments = {"cmd": "echo run >> runs; seq 1 9000; seq 1 3000 >&2"}
    pages = [await shell.ok("bash", arguments)]
    while pages[-1].next_page_cursor:
        pages.append(await shell.ok("bash", {**arguments, "cursor": pages[-1].next_page_cursor}))
    assert "".join(page.stdout for page in pages) == "".join(f"{n}\n" for n in range(1, 9001))
    assert "".join(page.stderr for page in pages) == "".join(f"{n}\n" for n in range(1, 3001))
    assert (shell.root / "runs").read_text() == "run\n"
    assert all(page.truncated_lines or page.truncated_bytes for page in pages[:-1])


async def test_a_cursor_of_another_command_or_session_is_refused(shell: ToolHarness):
    first = await shell.ok("bash", cmd="seq 1 9000")
    cursor = first.next_page_cursor
    assert await shell.refused("bash", cmd="seq 1 9001", cursor=cursor) == "INVALID_ARGS"
    other = (await shell.store.sessions.create(opened_by="test")).id
    assert await shell.refused("bash", cmd="seq 1 9000", cursor=cursor, session=other) == "STALE_CURSOR"
    assert await shell.refused("bash", cmd="seq 1 9000", cursor="garbage") == "INVALID_ARGS"


async def test_an_endless_writer_is_bounded_and_ends(shell: ToolHarness):
    result = await shell.call("bash", cmd="yes", timeout_seconds=1)
    assert result.failure.error_code.value == "TIMEOUT"
    assert len(result.stdout) <= 51200
    assert result.truncated_lines


async def test_a_secret_in_the_output_is_never_shown(shell: ToolHarness):
    shell.write("config", f"x={SECRET}\n" * 3000)
    pages = [await shell.ok("bash_readonly", cmd="cat config")]
    while pages[-1].next_page_cursor:
        cursor = pages[-1].next_page_cursor
        pages.append(await shell.ok("bash_readonly", cmd="cat config", cursor=cursor))
    assert SECRET not in "".join(page.stdout for page in pages)
    assert sum(page.stdout.count("***REDACTED***") for page in pages) == 3000


@pytest.mark.parametrize("command", ["rm -rf /", "sudo id", "mkfs.ext4 /dev/sda1", "echo x; reboot"])
async def test_a_plainly_destructive_command_is_refused_before_it_runs(shell: ToolHarness, command):
    assert await shell.refused("bash", cmd=command) == "COMMAND_DENIED"
    kind, fields = shell.last_event()
    assert (kind, fields["layer"]) == ("tool_call.denied", "arguments")


async def test_what_a_command_changes_though_it_is_protected_is_put_back_and_told(shell: ToolHarness):
    shell.write(".git/config", "[core]\n")
    shell.write(".git/hooks/pre-commit", "#!/bin/sh\n")
    script = "open('.git/config','a').write('evil'); open('.git/hooks/post-commit','w').write('evil')"
    script += "; open('.bashrc','w').write('evil'); open('fine.txt','w').write('fine')"
    result = await shell.ok("bash", cmd=f'python3 -c "{script}"')
    assert (shell.root / ".git/config").read_text() == "[core]\n"
    assert [path.name for path in (shell.root / ".git/hooks").iterdir()] == ["pre-commit"]
    assert not (shell.root / ".bashrc").exists()
    assert (shell.root / "fine.txt").read_text() == "fine"
    assert sorted(result.meta["restored"]) == [".bashrc", ".git/config", ".git/hooks"]
    assert "the change was undone" in result.stderr
    kinds = [kind for kind, _ in shell.events()]
    assert kinds[-3:] == ["tool_call.started", "tool_call.restored", "tool_call.completed"]
    event = shell.events()[-2][1]
    assert (event["tool_name"], sorted(event["paths"])) == ("bash", sorted(result.meta["restored"]))


async def test_names_put_back_after_a_stopped_command_are_an_event_under_the_call(shell: ToolHarness):
    script = "open('.bashrc','w').write('evil'); import time; time.sleep(30)"
    calling = asyncio.ensure_future(shell.call("bash", cmd=f'python3 -c "{script}"'))
    while not (shell.root / ".bashrc").exists():
        await asyncio.sleep(0.01)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    with shell.store.database.reading() as connection:
        events = [event.header for event in iter_stream(connection, shell.session_id)][-3:]
    assert [event.kind for event in events] == [
        *("tool_call.started", "tool_call.restored", "tool_call.failed")
    ]
    assert {event.parent for event in events[1:]} == {events[0].id}
    assert shell.events()[-2][1]["paths"] == [".bashrc"]


async def test_progress_is_told_while_a_command_runs(shell: ToolHarness):
    await shell.ok("bash", cmd="for n in 1 2 3 4 5 6; do echo line $n; sleep 0.3; done", timeout_seconds=20)
    assert any(text.startswith("line ") for text in shell.progress)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"cmd": ""},
        {"cmd": 7},
        {"cmd": "ls", "timeout_seconds": "5"},
        {"cmd": "ls", "timeout_seconds": 0},
        {"cmd": "ls", "workdir": ""},
        {"cmd": "ls", "shell": "zsh"},
        {"cmd": "a\0b"},
    ],
)
async def test_bad_arguments_are_refused(shell: ToolHarness, arguments):
    assert await shell.refused("bash", arguments) == "INVALID_ARGS"


async def test_a_command_that_begins_with_a_dash_is_a_command(shell: ToolHarness):
    result = await shell.call("bash", cmd="-c ls")
    assert result.exit_code == 127


async def test_only_opened_ports_are_reached_and_only_by_the_shell_that_may(shell: ToolHarness):
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    opened, closed = (listener.getsockname()[1] for listener in listeners)
    code = (
        "import socket,sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 2); print('reached')"
    )

    async def reached(tool: str, port: int) -> bool:
        result = await shell.call(tool, cmd=f'python3 -c "{code}" {port}')
        return result.stdout == "reached\n"

    assert not await reached("bash", opened)
    shell.policy = ToolPolicy(shell=ShellPolicy(network=True, ports=frozenset({opened})))
    assert await reached("bash", opened)
    assert not await reached("bash", closed)
    assert not await reached("bash_readonly", opened)
    for listener in listeners:
        listener.close()


async def test_with_files_switched_off_there_is_no_shell_either(shell: ToolHarness):
    """S4-T4"""
    shell.policy = ToolPolicy(fs=FsPolicy(enabled=False))
    assert await shell.refused("bash", cmd="true") == "TOOL_NOT_AVAILABLE"
    assert await shell.refused("bash_readonly", cmd="true") == "TOOL_NOT_AVAILABLE"


async def test_without_walls_there_is_a_shell_and_none_that_only_reads(shell: ToolHarness):
    await shell.backend.close()
    shell.backend = UnconfinedBackend()
    shell._build()
    assert (await shell.ok("bash", cmd="echo hi")).stdout == "hi\n"
    assert dict(shell.events())["tool_call.started"]["sandbox"] == "off"
    assert await shell.refused("bash_readonly", cmd="echo hi") == "TOOL_NOT_AVAILABLE"


@pytest.mark.parametrize("step", ["its output is begun", "its folder is opened"])
async def test_a_command_that_is_cancelled_before_it_runs_leaves_nothing_open(
    shell: ToolHarness, monkeypatch, open_descriptors, step
):
    assert (await shell.call("bash", cmd="true")).ok
    owner, name = (OutputSpool, "begin") if step == "its output is begun" else (PathResolver, "open")
    slow = Slow(getattr(owner, name))
    monkeypatch.setattr(owner, name, lambda *given: slow(*given) if _is_it(given) else slow.step(*given))
    before = open_descriptors()
    await slow.cancel(asyncio.ensure_future(shell.call("bash", cmd="true")))
    assert open_descriptors() == before
    assert not [path for path in shell.outputs.files.directory.rglob("*") if path.is_file()]


def _is_it(given: tuple[object, ...]) -> bool:
    """The folder is looked at before, when the call is judged."""
    return not isinstance(given[0], PathResolver) or given[-1] == os.O_RDONLY | os.O_DIRECTORY


async def test_what_a_command_left_behind_may_take_longer_to_remove_than_it_had_time(
    shell: ToolHarness, monkeypatch
):
    """A hundred thousand files in its temporary folder must not cost its result."""
    removing = Slow(command_runner.remove_job_directory)
    monkeypatch.setattr(command_runner, "remove_job_directory", removing)
    result = await shell.call("bash", cmd='echo "$TMPDIR"; sleep 60', timeout_seconds=1)
    assert result.failure.error_code == "TIMEOUT"
    assert result.stdout.startswith("/"), "what it wrote until then is not shown"
    folder = Path(result.stdout.strip()).parent
    assert folder.is_dir()
    removing.let_go_on()
    assert await is_gone(folder)


async def is_gone(path: Path) -> bool:
    """As soon as a busy machine has come to it."""
    deadline = time.monotonic() + 15
    while path.exists() and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    return not path.exists()


async def test_where_no_temporary_folder_can_be_made_that_is_told(shell: ToolHarness, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/sys")
    result = await shell.call("bash", cmd="true")
    assert result.failure is not None
    assert "temporary files" in result.failure.message
    assert "unexpectedly" not in result.failure.message
