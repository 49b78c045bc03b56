"""Settings: every wrong value is a sentence that names its variable, and nothing is read by accident."""

import os
import re
from pathlib import Path

import pytest

from interlock.config.modes import ToolMode
from interlock.config.settings import load_settings
from interlock.config.settings_report import (
    MASK,
    describe_settings,
    secrets_of,
    setting_names,
    unknown_variables,
)
from interlock.core.errors import ConfigurationError
from interlock.db.driver import LONGEST_LEASE_SECONDS
from interlock.sessions.runtime_settings import field_paths
from interlock.wiring.authority_inputs import ceiling


def refused(monkeypatch: pytest.MonkeyPatch, **variables: str) -> str:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as raised:
        load_settings()
    assert "\n" not in str(raised.value)
    return str(raised.value)


def row(name: str) -> tuple[str, str]:
    (found,) = [row for row in describe_settings(load_settings()) if row.name == name]
    return found.value, found.origin


def test_the_defaults_are_those_of_the_specifications(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    settings = load_settings()
    assert settings.tool.timeout_seconds == 30
    assert settings.tool.max_output_lines == 2000
    assert settings.tool.max_output_bytes == 51200
    assert settings.tool.allowed_roots is None
    assert settings.session.open_modes == {ToolMode.chat_safe}
    assert settings.session.queue_limit == 20
    assert settings.gateway.host == "127.0.0.1"
    assert settings.workspace_dir == tmp_path / "data" / "interlock"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("TOOL_TIMEOUT_SECONDS", "0", "greater than 0"),
        ("TOOL_TIMEOUT_SECONDS", "soon", "number"),
        ("TOOL_TIMEOUT_SECONDS", "601", "TOOL_MAX_TIMEOUT_SECONDS"),
        ("TOOL_MAX_OUTPUT_LINES", "-1", "greater than 0"),
        ("TOOL_MAX_OUTPUT_BYTES", "", "whole number"),
        ("TOOL_SANDBOX", "maybe", "'auto', 'landlock', 'bubblewrap' or 'off'"),
        ("TOOL_FS_ENABLED", "perhaps", "true or false"),
        ("TOOL_NETWORK_PORTS", "80,99999", "65536"),
        ("SESSION_OPEN_MODES", "plan,root", "'root' is not a mode"),
        ("SESSION_LEASE_SECONDS", "0", "at least 1"),
        ("GATEWAY_PORT", "70000", "65536"),
        ("DATABASE_URL", "mysql://x", "'mysql' is not supported"),
        ("DATABASE_SYNCHRONOUS", "off", "'full' or 'normal'"),
        ("LOG_LEVEL", "loud", "'debug'"),
    ],
)
def test_a_wrong_value_stops_the_start_and_names_its_variable(monkeypatch, name, value, text):
    sentence = refused(monkeypatch, **{name: value})
    assert name in sentence
    assert text in sentence


@pytest.mark.parametrize("value", ["", " ", ",", "relative", "./here", "/no/such/folder", "/etc/hostname"])
def test_roots_that_are_set_must_be_real_absolute_folders(monkeypatch, value):
    assert refused(monkeypatch, TOOL_ALLOWED_ROOTS=value).startswith("TOOL_ALLOWED_ROOTS")


@pytest.mark.parametrize("name", ["TOOL_ALLOWED_ROOTS", "TOOL_READABLE_PATHS"])
def test_a_folder_whose_name_is_not_utf8_is_refused_in_one_line(monkeypatch, tmp_path, name):
    """It could not be recorded, nor told to a model."""
    odd = tmp_path / os.fsdecode(b"b\xe4d")
    odd.mkdir()
    (tmp_path / "link").symlink_to(odd)
    assert refused(monkeypatch, **{name: str(odd)}) == f"{name}: its value is not valid UTF-8"
    sentence = refused(monkeypatch, **{name: str(tmp_path / "link")})
    assert sentence.startswith(f"{name}: ")
    assert sentence.endswith("/link' resolves to a folder whose name is not valid UTF-8")


@pytest.mark.parametrize("name", ["WORKSPACE_DIR", "SESSION_OPEN_MODES", "AUTONOUS_TOOL_DENIED", "MODEL"])
def test_a_value_that_is_not_utf8_names_its_variable(monkeypatch, name):
    assert refused(monkeypatch, **{name: os.fsdecode(b"/tmp/b\xe4d")}) == (
        f"{name}: its value is not valid UTF-8"
    )


def test_roots_are_cleaned_and_named_once(monkeypatch, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    monkeypatch.setenv("AUTONOUS_TOOL_ALLOWED_ROOTS", f"{tmp_path}/a/, {tmp_path}/link,{tmp_path}/a/../a")
    assert load_settings().tool.allowed_roots == (tmp_path / "a",)


@pytest.mark.parametrize(
    "precious", ["state", "workspace/agents", "workspace/workflows", "workspace/memory"]
)
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("name", ["TOOL_ALLOWED_ROOTS", "TOOL_READABLE_PATHS"])
def test_no_command_reaches_what_governs_it(monkeypatch, tmp_path, name, precious, inside):
    monkeypatch.setenv("INTERLOCK_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("WORKSPACE_DIR", str(tmp_path / "workspace"))
    folder = tmp_path / precious
    root = folder / "deeper" if inside else folder.parent
    root.mkdir(parents=True, exist_ok=True)
    sentence = refused(monkeypatch, **{name: str(root)})
    assert sentence.startswith(name)
    assert "must not reach" in sentence


def test_a_link_cannot_hide_that_the_state_lies_in_a_root(monkeypatch, tmp_path):
    (tmp_path / "root" / "hidden").mkdir(parents=True)
    (tmp_path / "state").symlink_to(tmp_path / "root" / "hidden")
    monkeypatch.setenv("INTERLOCK_STATE_DIR", str(tmp_path / "state"))
    assert "must not reach" in refused(monkeypatch, TOOL_ALLOWED_ROOTS=str(tmp_path / "root"))


def test_the_database_may_not_lie_in_a_root_either(monkeypatch, tmp_path):
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/root/x.db")
    (tmp_path / "root").mkdir()
    assert "database's folder" in refused(monkeypatch, TOOL_ALLOWED_ROOTS=str(tmp_path / "root"))


def test_the_rules_about_commands_may_not_lie_in_a_root(monkeypatch, tmp_path):
    """An agent could loosen them for the next start."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "team.toml").touch()
    monkeypatch.setenv("TOOL_COMMAND_RULES", str(tmp_path / "root" / "team.toml"))
    assert "file of TOOL_COMMAND_RULES" in refused(monkeypatch, TOOL_ALLOWED_ROOTS=str(tmp_path / "root"))


def test_chat_safe_is_open_whatever_is_listed(monkeypatch):
    monkeypatch.setenv("SESSION_OPEN_MODES", " plan , build ")
    assert load_settings().session.open_modes == {ToolMode.chat_safe, ToolMode.plan, ToolMode.coding}


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("TOOL_TIMEOUT_SECONDS", "12", 12.0),
        ("TOOL_MAX_OUTPUT_LINES", "70", 70),
        ("TOOL_MAX_OUTPUT_BYTES", "900", 900),
        ("TOOL_BASH_DENYLIST", "curl, git push", ("curl", "git push")),
        ("TOOL_ALLOWED_ROOTS", "/usr", (Path("/usr"),)),
    ],
)
def test_every_name_of_the_specifications_works_and_is_told(monkeypatch, name, given, value):
    assert row(name)[1] == "default"
    monkeypatch.setenv(f"AUTONOUS_{name}", given)
    assert getattr(load_settings().tool, name.removeprefix("TOOL_").lower()) == value
    assert row(name)[1] == f"AUTONOUS_{name}"


@pytest.mark.parametrize("name", [name for name in setting_names() if name.startswith("TOOL_")])
def test_a_wrong_value_is_refused_by_the_name_it_was_given_by(monkeypatch, name):
    wrong = {"TOOL_DENIED": "not a name", "TOOL_PROTECTED_NAMES": "/absolute"}
    takes_anything = {"TOOL_BASH_DENYLIST", "TOOL_MCP_SERVERS"}
    value = os.fsdecode(b"\xe4") if name in takes_anything else wrong.get(name, "wrong")
    sentence = refused(monkeypatch, **{f"AUTONOUS_{name}": value})
    assert sentence.startswith(f"AUTONOUS_{name}: ")
    assert not re.search(rf"(?<!AUTONOUS_){name}", sentence)


def test_every_variable_of_a_rule_between_two_is_named_as_it_was_given(monkeypatch, tmp_path):
    monkeypatch.setenv("TOOL_MAX_TIMEOUT_SECONDS", "5")
    assert refused(monkeypatch, AUTONOUS_TOOL_TIMEOUT_SECONDS="6") == (
        "AUTONOUS_TOOL_TIMEOUT_SECONDS must not exceed TOOL_MAX_TIMEOUT_SECONDS"
    )
    monkeypatch.delenv("AUTONOUS_TOOL_TIMEOUT_SECONDS")
    monkeypatch.delenv("TOOL_MAX_TIMEOUT_SECONDS")
    monkeypatch.setenv("INTERLOCK_STATE_DIR", str(tmp_path))
    sentence = refused(monkeypatch, AUTONOUS_TOOL_ALLOWED_ROOTS=str(tmp_path))
    assert sentence.startswith("AUTONOUS_TOOL_ALLOWED_ROOTS: ")


def test_a_variable_given_by_both_names_is_told_by_its_own(monkeypatch):
    monkeypatch.setenv("TOOL_TIMEOUT_SECONDS", "0")
    assert refused(monkeypatch, AUTONOUS_TOOL_TIMEOUT_SECONDS="0").startswith("TOOL_TIMEOUT_SECONDS: ")


def test_no_single_setting_switches_all_tools_off_and_none_changes_the_roots_while_it_runs():
    """S3-9.7, S3-9.9: there are policies and the operator's list, and that list is read at the start."""
    switches = {name for name in setting_names() if name.endswith("_ENABLED")}
    assert switches == {f"TOOL_{part}_ENABLED" for part in ("FS", "SHELL", "MCP", "MEMORY", "IMAGE")}
    assert not [path for path in field_paths() if "root" in path or path in {"tools.enabled", "enabled"}]


def test_two_names_that_differ_are_refused(monkeypatch):
    sentence = refused(monkeypatch, TOOL_TIMEOUT_SECONDS="5", AUTONOUS_TOOL_TIMEOUT_SECONDS="6")
    assert "both set and differ" in sentence


def test_a_secret_may_come_from_a_file_and_is_never_shown(monkeypatch, tmp_path):
    (tmp_path / "key").write_text("sk-not-a-real-key-123\n")
    monkeypatch.setenv("OPENAI_API_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:hunter2hunter2@db/x")
    settings = load_settings()
    assert settings.openai.api_key.get_secret_value() == "sk-not-a-real-key-123"
    assert secrets_of(settings) == ["sk-not-a-real-key-123", "hunter2hunter2"]
    value, origin = row("OPENAI_API_KEY")
    assert value == MASK
    assert origin.startswith("OPENAI_API_KEY_FILE")
    assert row("DATABASE_URL")[0] == f"postgresql://me:{MASK}@db/x"
    assert "hunter2" not in repr(settings)


def test_a_secret_file_that_cannot_be_read_is_a_clear_error(monkeypatch, tmp_path):
    sentence = refused(monkeypatch, OPENAI_API_KEY_FILE=str(tmp_path / "gone"))
    assert "OPENAI_API_KEY_FILE" in sentence
    assert "No such file" in sentence


def test_a_wrong_secret_is_not_repeated_in_the_error(monkeypatch):
    assert "hunter2" not in refused(monkeypatch, DATABASE_URL="mysql://me:hunter2@db/x")


def test_a_stray_env_file_is_not_read(monkeypatch, tmp_path):
    (tmp_path / ".env").write_text("SESSION_OPEN_MODES=coding\nTOOL_SANDBOX=off\n")
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    assert settings.session.open_modes == {ToolMode.chat_safe}
    assert settings.tool.sandbox == "auto"


def test_a_mistyped_variable_is_pointed_out():
    environment = {"TOOL_TIMEOUT_SECOND": "5", "TOOL_TIMEOUT_SECONDS": "5", "PATH": "", "SESSION_X": ""}
    assert unknown_variables(environment) == {
        "TOOL_TIMEOUT_SECOND": "TOOL_TIMEOUT_SECONDS",
        "SESSION_X": None,
    }


def test_a_variable_that_is_not_ours_does_not_stop_the_start(monkeypatch):
    for name in ("SESSION_X", "TOOL_SOMETHING_ELSE", "GATEWAY_OF_ANOTHER_PROGRAM"):
        monkeypatch.setenv(name, "x")
    assert load_settings().session.default_mode == "chat_safe"


def test_no_setting_holds_the_words_of_a_refusal():
    words = ("message", "next_action", "text", "sentence", "hint")
    names = [*map(str.lower, setting_names()), *field_paths()]
    assert len(names) > 50
    assert [name for name in names if any(word in name.split("_") for word in words)] == []


def test_settings_cannot_be_changed_after_the_start():
    settings = load_settings()
    with pytest.raises(Exception, match="frozen"):
        settings.tool.timeout_seconds = 1


def test_no_lease_can_be_set_that_the_store_would_take_for_one_of_another_clock(monkeypatch):
    monkeypatch.setenv("SESSION_LEASE_SECONDS", str(LONGEST_LEASE_SECONDS))
    assert load_settings().session.lease_seconds == LONGEST_LEASE_SECONDS
    assert "SESSION_LEASE_SECONDS" in refused(
        monkeypatch, SESSION_LEASE_SECONDS=str(LONGEST_LEASE_SECONDS + 1)
    )


@pytest.mark.parametrize("value", ["bash read_file", "b\u0430sh", "bash;write_file", "x" * 65])
def test_a_denial_that_could_deny_nothing_stops_the_start(monkeypatch, value):
    assert "TOOL_DENIED" in refused(monkeypatch, TOOL_DENIED=f"current_time, {value}")
    monkeypatch.setenv("TOOL_DENIED", "bash, fs.read, server__tool-1")
    assert load_settings().tool.denied == {"bash", "fs.read", "server__tool-1"}


def test_a_group_or_an_effect_may_be_denied_and_an_unknown_one_stops_the_start(monkeypatch):
    sentence = refused(monkeypatch, AUTONOUS_TOOL_DENIED="bash, group:medai")
    assert sentence.startswith(
        "AUTONOUS_TOOL_DENIED: 'group:medai' names no group of tools; did you mean group:media?"
    )
    monkeypatch.setenv("AUTONOUS_TOOL_DENIED", "group:media,effect:exec")
    assert ceiling(load_settings()).denied_tools == {"group:media", "effect:exec"}


@pytest.mark.parametrize("value", ["perhaps", "ALLOW", ""])
def test_what_is_not_a_decision_is_refused_with_those_there_are(monkeypatch, value):
    assert "TOOL_SHELL_UNKNOWN: it must be one of 'allow', 'ask' or 'deny'" in refused(
        monkeypatch, TOOL_SHELL_UNKNOWN=value
    )
