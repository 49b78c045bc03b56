"""The units for systemd: what they start exists, what they set are settings, and no secret is in them."""

import shlex
import shutil
import subprocess
import sys

import pytest

from interlock.cli.exit_codes import ExitCode
from interlock.cli.main import build_app
from interlock.config.modes import ToolMode
from interlock.config.settings import Settings, load_settings
from interlock.config.settings_report import _walk, setting_names
from interlock.config.sources import SECRET_FILE_SUFFIX
from interlock.config.worker import WorkerSettings
from interlock.gateway.server import STOP_SECONDS
from interlock.runtime.supervisor import RestartPolicy
from tests.unit.deploy.units import FOLDER, UNITS, calls_of, read_variables

SECRETS = {name for name, _, is_secret in _walk(Settings) if is_secret}
EXAMPLE = FOLDER / "interlock.env.example"
# What the sandbox does with the kernel's help, and what it asks for.
NEEDED_CALLS = {
    *("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp", "prctl"),
    *("pidfd_open", "pidfd_send_signal", "openat2", "renameat2", "clone", "clone3", "execve", "setsid"),
    *("prlimit64", "capset", "close_range"),
}
of_each = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
with_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")


def test_there_is_a_unit_for_each_way_to_run_it():
    assert [unit.name for unit in UNITS] == [
        "interlock-gateway@.service",
        "interlock-telegram.service",
        "interlock-worker.service",
        "interlock.service",
    ]


@of_each
def test_what_it_starts_is_a_command_line_that_interlock_takes(unit):
    program, *words = shlex.split(unit.one("ExecStart").replace("%i", "127.0.0.2"))
    assert program == "/opt/interlock/bin/interlock"
    app = build_app()
    if words[0] not in app:
        pytest.skip(f"{words[0]} is not there yet")
    _, bound, *_ = app.parse_args(words, exit_on_error=False, print_error=False)
    assert len(bound.arguments) == sum(word.startswith("--") for word in words)


@of_each
def test_what_it_sets_are_settings_and_secrets_come_from_files_that_are_loaded(unit):
    loaded = {credential.partition(":")[0] for credential in unit.all("LoadCredential")}
    used = set()
    for assignment in unit.all("Environment"):
        name, _, value = assignment.partition("=")
        assert name.removesuffix(SECRET_FILE_SUFFIX) in SECRETS
        assert name.endswith(SECRET_FILE_SUFFIX)
        assert value == "%d/" + name.removesuffix(SECRET_FILE_SUFFIX).lower()
        used.add(value.removeprefix("%d/"))
    assert used == loaded
    for credential in unit.all("LoadCredential"):
        name, _, path = credential.partition(":")
        assert path == f"/etc/interlock/secrets/{name}"


@of_each
def test_it_stops_as_interlock_does_and_is_not_started_for_ever(unit):
    given, limits = WorkerSettings(), RestartPolicy()
    # A supervisor waits five seconds more than its workers have.
    longest = STOP_SECONDS + given.stop_grace_seconds + given.cancel_grace_seconds + 5
    assert unit.seconds("TimeoutStopSec") >= longest + 10
    assert (unit.one("KillMode"), unit.one("OOMPolicy")) == ("mixed", "continue")
    assert (unit.one("Restart"), unit.one("RestartPreventExitStatus")) == (
        "on-failure",
        str(int(ExitCode.usage)),
    )
    pauses = sum(limits.restart_seconds * 2**step for step in range(given.max_crashes - 1))
    giving_up = pauses + 5 * given.max_crashes
    tries = int(unit.one("StartLimitBurst"))
    assert tries * (giving_up + unit.seconds("RestartSec")) < unit.seconds("StartLimitIntervalSec")


def test_all_of_them_have_the_same_walls():
    walls = [
        [
            entry
            for entry in unit.entries
            if entry[1].startswith(("Protect", "Private", "Restrict", "System"))
        ]
        for unit in UNITS
    ]
    walls = [[entry for entry in wall if entry[1] != "RestartPreventExitStatus"] for wall in walls]
    assert all(wall == walls[0] for wall in walls)
    assert len(walls[0]) >= 15
    for unit in UNITS:
        assert (unit.one("NoNewPrivileges"), unit.one("CapabilityBoundingSet")) == ("yes", "")
        assert unit.one("User") == "interlock"
        # Commands would inherit it, and what compiles while it runs (node, java) could not.
        assert unit.all("MemoryDenyWriteExecute") == []


@of_each
def test_all_processes_together_are_bounded(unit):
    assert 1024 <= int(unit.one("TasksMax")) <= 8192
    assert unit.one("MemoryMax") == "80%"


def test_the_drop_in_for_control_groups_delegates_what_interlock_looks_for():
    """`pids_cgroup.py` uses the group above its own, if that was delegated."""
    entries = [
        line for line in (FOLDER / "pids.conf").read_text().splitlines() if "=" in line and line[0] != "#"
    ]
    assert entries == ["Delegate=pids", "DelegateSubgroup=server", "ProtectControlGroups=no"]


def test_the_example_has_settings_and_no_secret():
    given, proposed = read_variables(EXAMPLE)
    assert {*given, *proposed} <= set(setting_names())
    assert not {*given, *proposed} & SECRETS


def test_the_example_is_understood(monkeypatch, tmp_path):
    given, _ = read_variables(EXAMPLE)
    for name, value in given.items():
        here = value.replace("/var/lib/interlock", str(tmp_path / "lib")).replace("/srv", str(tmp_path))
        monkeypatch.setenv(name, here)
    (tmp_path / "interlock").mkdir()
    settings = load_settings()
    assert settings.tool.allowed_roots == (tmp_path / "interlock",)
    assert ToolMode.coding not in settings.session.open_modes


def test_what_the_example_opens_is_what_the_units_let_it_write_to():
    given, _ = read_variables(EXAMPLE)
    for unit in UNITS:
        assert unit.one("ReadWritePaths") == f"-{given['TOOL_ALLOWED_ROOTS']}"
        folders = unit.one("StateDirectory").split()
        for name in ("INTERLOCK_STATE_DIR", "WORKSPACE_DIR"):
            assert given[name].removeprefix("/var/lib/") in folders


@with_systemd
@of_each
def test_systemd_understands_it(unit, tmp_path):
    text = (FOLDER / unit.name).read_text().replace("/opt/interlock/bin/interlock", sys.executable)
    (tmp_path / unit.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / unit.name], capture_output=True, text=True
    )
    told = [line for line in done.stderr.splitlines() if unit.name.split("@")[0] in line]
    assert (done.returncode, told) == (0, [])


@with_systemd
@of_each
def test_systemd_finds_little_exposed(unit):
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=25", FOLDER / unit.name],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


@with_systemd
@of_each
def test_no_system_call_is_refused_that_the_sandbox_needs(unit):
    refused = calls_of(unit.one("SystemCallFilter"))
    assert "mount" in refused
    assert refused & NEEDED_CALLS == set()
