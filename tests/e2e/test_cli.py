"""The command line as a person uses it: what is printed, exit codes, `--json`."""

import json
import re
import signal
import sqlite3
import subprocess

import pytest

from interlock.db.database import SCHEMA_REVISION
from tests.harness.case_tables import each_row
from tests.harness.cli import CliRunner, one_line_error


def test_the_first_thing_a_newcomer_sees_is_the_matrix(interlock):
    done = interlock("policy", "matrix")
    assert "current_time" in done.stdout
    assert "coding" in done.stdout
    assert "chat_safe" in done.stderr
    rows = {line.split()[0]: line.split()[3:] for line in done.stdout.splitlines() if line.strip()}
    assert rows["write_file"] == ["no", "no", "no", "no", "capability"]
    assert rows["current_time"] == ["yes"] * 4
    told = interlock.json("policy", "matrix")
    assert told["open_modes"] == ["chat_safe"]
    (tool,) = [tool for tool in told["tools"] if tool["name"] == "current_time"]
    assert tool["modes"]["chat_safe"] == {"allowed": True}


def test_a_call_goes_through_the_gates_and_into_the_log(interlock):
    told = interlock.json("tool", "call", "current_time", "--args", '{"timezone": "Asia/Shanghai"}')
    assert told["ok"] is True
    assert "+08:00" in told["stdout"]
    tree = interlock.json("events", "tree", told["session_id"])
    assert [event["kind"] for event in tree] == ["session.created", "tool_call.started"]
    assert tree[0]["payload"]["opened_by"] == "tool call"
    (outcome,) = tree[1]["children"]
    assert outcome["kind"] == "tool_call.completed"
    assert "tool_call.completed" in interlock("events", "tree", told["session_id"]).stdout


def test_a_denied_call_says_why_and_exits_with_3(interlock):
    interlock("settings", "set", "tools.denied_tools", '["current_time"]')
    told = interlock.json("tool", "call", "current_time", expect=3)
    session = told.pop("session_id")
    assert set(told) == {"ok", "error_code", "tool_name", "mode", "message", "next_action"}
    assert told["error_code"] == "TOOL_NOT_AVAILABLE"
    assert all(told[name] for name in told if name != "ok")
    kinds = [event["kind"] for event in interlock.json("events", "tree", session)]
    assert kinds == ["session.created", "tool_call.denied"]
    shown = interlock("tool", "call", "current_time", expect=3)
    assert shown.stdout.startswith("denied    current_time is not available")
    explained = interlock.json("policy", "explain", "current_time", expect=3)
    assert (explained["layer"], explained["allowed"]) == ("settings", False)
    tools = interlock.json("policy", "matrix")["tools"]
    modes = next(tool["modes"] for tool in tools if tool["name"] == "current_time")
    assert (modes["chat_safe"]["allowed"], modes["chat_safe"]["layer"]) == (False, "settings")
    assert modes["coding"]["layer"] == "mode"
    assert modes["coding"]["if_opened"]["layer"] == "settings"


@pytest.mark.parametrize(
    ("name", "given", "kept", "code"),
    [
        ("read_file", '{"path": "a.txt"}', {"path": "a.txt"}, 3),
        ("current_time", '{"timezone": 5}', {"timezone": 5}, 1),
        ("current_time", '{"timezone', '{"timezone', 1),
        ("no_such_tool", '{"a": "sk-secret-secret"}', {"a": "***REDACTED***"}, 1),
    ],
)
def test_what_a_refused_call_was_given_is_in_the_log(interlock, name, given, kept, code):
    interlock.variables["OPENAI_API_KEY"] = "sk-secret-secret"
    session = interlock.json("tool", "call", name, "--args", given, expect=code)["session_id"]
    _, refused = interlock.json("events", "tree", session)
    assert refused["payload"]["arguments"] == kept
    assert "arguments=" in interlock("events", "tree", session).stdout


def test_a_digest_in_the_log_can_be_looked_up_and_checked(interlock):
    session = interlock.json("tool", "call", "current_time")["session_id"]
    digest = interlock.json("events", "tree", session)[1]["payload"]["authority_digest"]
    interlock("settings", "set", "tools.denied_tools", '["current_time"]')
    interlock("tool", "call", "current_time", expect=3)
    then = interlock.json("policy", "show", digest[:12])
    assert (then["digest"], then["genuine"], then["mode"]) == (digest, True, "chat_safe")
    assert ["current_time", "allowed"] in then["verdicts"]
    assert "allowed   current_time" in interlock("policy", "show", digest).stdout
    kinds = [event["kind"] for event in interlock.json("events", "tree", "system")]
    assert kinds.count("authority.compiled") == 2
    interlock("tool", "call", "current_time", expect=3)
    assert len(interlock.json("events", "tree", "system")) == len(kinds)
    assert "not a digest" in one_line_error(interlock, "policy", "show", "xyz", expect=2)
    interlock("policy", "show", "0" * 64, expect=1)


def test_the_operators_ceiling_is_named_as_such(interlock):
    interlock.variables["TOOL_DENIED"] = "current_time"
    told = interlock.json("policy", "explain", "current_time", "--mode", "coding", expect=3)
    assert told["layer"] == "environment"
    assert "Only the operator" in told["next_action"]


def test_a_question_about_a_call_judges_its_arguments_without_running_it(interlock):
    assert interlock.json("policy", "explain", "current_time")["allowed"] is True
    bad = interlock.json("policy", "explain", "current_time", "--args", '{"timezone": 5}', expect=1)
    assert (bad["error_code"], bad["error_class"]) == ("INVALID_ARGS", "validation")
    assert "timezone" in bad["message"]
    step = interlock.json("policy", "explain", "complete_step", expect=3)
    assert (step["layer"], step["decided_by"]) == ("task", "the kind of task")
    assert "for the steps of a workflow" in step["message"]
    unknown = interlock.json("policy", "explain", "launch_rocket", expect=1)
    assert unknown["error_code"] == "TOOL_NOT_FOUND"
    closed = interlock.json("policy", "explain", "current_time", "--mode", "build")
    assert (closed["mode"], closed["mode_is_open"], closed["allowed"]) == ("coding", False, True)
    assert interlock.json("sessions", "list", "--group", "all") == []


COMMAND_RULES = """
[[rule]]
name = "no-push"
decision = "ask"
reason = "others see it"
prefix = ["git push"]
match = ["git push -f"]
not_match = ["git pull"]
"""


def test_the_operators_rules_about_commands_are_checked_and_named(interlock, tmp_path):
    """S3-6.2.2"""
    (tmp_path / "ws").mkdir()
    rules = tmp_path / "team.toml"
    rules.write_text(COMMAND_RULES)
    assert interlock.json("policy", "check", str(rules)) == {
        "file": str(rules),
        "valid": True,
        "rules": {"no-push": "ask"},
    }
    interlock.variables["TOOL_COMMAND_RULES"] = str(rules)
    asked = ("policy", "explain", "bash", "--mode", "coding", "--root", str(tmp_path / "ws"), "--args")
    told = interlock.json(*asked, '{"cmd": "ls && git push origin"}', expect=3)
    assert told["error_code"] == "COMMAND_DENIED"
    assert "(rule no-push, team.toml:2)" in told["message"]
    built_in = interlock.json(*asked, '{"cmd": "rm -rf /"}', expect=3)["message"]
    assert re.search(r"\(rule remove-system-folder, rules\.toml:\d+\)", built_in)
    rows = {finding["what"]: finding for finding in interlock.json("doctor")}
    assert (rows["command rules"]["state"], rows["command rules"]["detail"][:7]) == ("ok", "1 rules")

    rules.write_text(COMMAND_RULES.replace("git pull", "git push"))
    wrong = "team.toml:8: the rule no-push should not match 'git push'"
    assert wrong in interlock.json("policy", "check", str(rules), expect=1)["problem"]
    assert wrong in interlock("policy", "check", str(rules), expect=1).stdout
    assert f"TOOL_COMMAND_RULES: {wrong}" in one_line_error(interlock, "policy", "matrix", expect=1)
    rows = {finding["what"]: finding for finding in interlock.json("doctor", expect=1)}
    assert rows["command rules"]["state"] == "failed"


def test_a_failed_call_exits_with_1(interlock):
    assert interlock.json("tool", "call", "nothing", expect=1)["error_code"] == "TOOL_NOT_FOUND"
    assert (
        interlock.json("tool", "call", "current_time", "--args", "nonsense", expect=1)["error_class"]
        == "validation"
    )


def test_a_session_can_be_continued_shown_exported_and_deleted(interlock, tmp_path):
    session = interlock.json("tool", "call", "current_time")["session_id"]
    interlock("tool", "call", "current_time", "--session", session)
    (listed,) = interlock.json("sessions", "list", "--group", "all")
    assert (listed["id"], listed["last_seq"]) == (session, 5)
    assert session in interlock("sessions", "list", "--group", "all").stdout
    shown = interlock.json("sessions", "show", session)
    assert (shown["mode"], shown["opened_by"]) == ("chat_safe", "tool call")
    assert "chat_safe" in interlock("sessions", "show", session).stdout
    lines = [json.loads(line) for line in interlock("sessions", "export", session).stdout.splitlines()]
    assert [line["type"] for line in lines] == ["session"] + ["event"] * 5
    interlock("sessions", "export", session, "--out", str(tmp_path / "s.jsonl"))
    assert len((tmp_path / "s.jsonl").read_text().splitlines()) == 6
    assert "exists" in one_line_error(
        interlock, "sessions", "export", session, "--out", str(tmp_path / "s.jsonl")
    )
    interlock("sessions", "delete", session, expect=2)
    interlock("sessions", "delete", session, "--yes")
    assert "no session" in one_line_error(interlock, "sessions", "show", session)
    assert interlock.json("events", "verify")["erased"] == 0
    interlock("sessions", "erase", session, "--yes")
    assert interlock.json("events", "verify")["erased"] >= 5


def test_a_mode_is_switched_only_among_open_ones(interlock):
    session = interlock.json("tool", "call", "current_time")["session_id"]
    assert "coding mode is not open" in one_line_error(
        interlock, "sessions", "mode", session, "coding", expect=3
    )
    assert interlock.json("sessions", "mode", session)["mode"] == "chat_safe"
    interlock.variables["SESSION_OPEN_MODES"] = "coding"
    assert interlock.json("sessions", "mode", session, "build") == {
        "session_id": session,
        "mode": "coding",
        "open_modes": ["chat_safe", "coding"],
    }
    del interlock.variables["SESSION_OPEN_MODES"]
    assert interlock.json("sessions", "show", session)["mode"] == "chat_safe"
    assert "not a mode" in one_line_error(interlock, "sessions", "mode", session, "root", expect=2)


def test_a_root_given_on_the_command_line_may_not_hold_the_state(interlock):
    interlock("db", "upgrade")
    state = str(interlock.home / "state")
    for root in (state, str(interlock.home)):
        assert "--root" in one_line_error(interlock, "tool", "call", "current_time", "--root", root)


def test_a_mode_given_for_a_call_counts_for_that_call_alone(interlock):
    session = interlock.json("tool", "call", "current_time")["session_id"]
    interlock("tool", "call", "current_time", "--session", session, "--mode", "plan")
    modes = [event["payload"]["mode"] for event in interlock.json("events", "tree", session)[1:]]
    assert modes == ["chat_safe", "plan"]
    interlock.variables["SESSION_OPEN_MODES"] = "plan"
    assert interlock.json("sessions", "mode", session)["mode"] == "chat_safe"


def test_the_log_can_be_tailed_and_followed(interlock):
    session = interlock.json("tool", "call", "current_time")["session_id"]
    lines = [json.loads(line) for line in interlock("events", "tail", "--json").stdout.splitlines()]
    kinds = ["session.created", "authority.compiled", "tool_call.started", "tool_call.completed"]
    assert [line["kind"] for line in lines] == kinds
    rest = interlock("events", "tail", "--json", "--after", lines[2]["cursor"]).stdout.splitlines()
    assert [json.loads(line)["kind"] for line in rest] == kinds[3:]
    assert len(interlock("events", "tail", session, "--limit", "2").stdout.splitlines()) == 2
    tail = ("events", "tail", session, "--after", "3", "--follow", "--json")
    follower = interlock.start(*tail, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    interlock("tool", "call", "current_time", "--session", session)
    assert [json.loads(follower.stdout.readline())["seq"] for _ in range(2)] == [4, 5]
    follower.send_signal(signal.SIGINT)
    _, errors = follower.communicate(timeout=60)
    assert follower.returncode == 130
    assert b"Traceback" not in errors


def test_tampering_is_found_and_an_anchor_holds(interlock):
    session = interlock.json("tool", "call", "current_time")["session_id"]
    anchor = interlock("events", "anchor").stdout.strip()
    assert interlock.json("events", "verify", "--anchor", anchor)["ok"] is True
    with sqlite3.connect(interlock.home / "state" / "interlock.db") as database:
        database.execute("UPDATE events SET content = '{}' WHERE stream = ? AND seq = 2", (session,))
    database.close()
    told = interlock.json("events", "verify", expect=1)
    assert told["faults"] == [
        {"stream": session, "seq": 2, "what": "broken", "detail": "its content was changed"}
    ]
    assert f"broken: {session} #2" in interlock("events", "verify", expect=1).stdout
    assert interlock("doctor", expect=1).stdout.count("failed") == 1
    assert "not an anchor" in one_line_error(interlock, "events", "verify", "--anchor", "x", expect=2)


def test_after_an_older_backup_was_restored_a_person_accepts_that_before_it_is_signed(interlock):
    interlock("tool", "call", "current_time")
    interlock("events", "anchor")
    interlock("backup", "older.zip")
    interlock("tool", "call", "current_time")
    lost = interlock("events", "anchor").stdout.strip()
    assert "--accept-restored" in interlock("restore", "older.zip", "--replace").stderr
    assert "--accept-restored" in one_line_error(interlock, "events", "anchor")
    assert "--accept-restored" in interlock.json("events", "verify", expect=1)["faults"][0]["detail"]
    doctor = {row["what"]: row for row in interlock.json("doctor", expect=1)}
    assert doctor["log"]["state"] == "failed"
    assert "--accept-restored" in doctor["checkpoints"]["detail"]
    assert doctor["checkpoints"]["state"] == "warning"
    interlock("events", "anchor", "--accept-restored")
    assert interlock.json("events", "verify")["ok"] is True
    (event,) = [
        each
        for each in interlock.json("events", "tree", "system")
        if each["kind"] == "log.restore_accepted"
    ]
    assert lost.startswith(event["payload"]["lost"])
    assert event["payload"]["who"].startswith("local:")
    assert "nothing to accept" in one_line_error(interlock, "events", "anchor", "--accept-restored")


def test_doctor_warns_of_a_sink_that_cannot_be_compared(interlock):
    interlock.variables["EVENT_ANCHORS"] = "https://proof.example/"
    interlock("tool", "call", "current_time")
    (log,) = [row for row in interlock.json("doctor") if row["what"] == "log"]
    assert log["state"] == "warning"
    assert "0 checkpoints are signed" in log["detail"]
    assert "https://proof.example/ cannot be read here" in log["detail"]


def test_a_rotated_key_signs_at_once_and_the_old_one_is_gone(interlock):
    assert "no signing key yet" in one_line_error(interlock, "events", "rotate-key")
    assert not (interlock.home / "state" / "signing").exists()
    interlock("events", "anchor")
    told = interlock.json("events", "rotate-key")
    report = interlock.json("events", "verify")
    assert (report["ok"], report["signed"], report["key"]) == (True, 2, told["key"])
    assert [path.stem for path in (interlock.home / "state" / "signing").glob("*.pem")] == [told["key"]]


def test_settings_are_shown_changed_and_told(interlock):
    interlock.variables["TOOL_MAX_READ_BYTES"] = "1000"
    interlock("settings", "set", "tools.fs.max_write_bytes", "4096")
    told = interlock.json("settings", "show")
    assert told["version"] == 1
    assert told["settings"]["tools"]["fs"]["max_write_bytes"] == 4096
    assert told["effective"]["tools"]["fs"]["max_read_bytes"] == 1000
    (event,) = interlock.json("events", "tree", "system")
    assert event["kind"] == "settings.changed"
    assert event["payload"]["who"].startswith("local:")
    assert "tools.fs.max_write_bytes" in interlock("settings", "show").stdout
    for path, value in (("tools.fs.nothing", "1"), ("tools.fs.enabled", "maybe"), ("tools", "1")):
        one_line_error(interlock, "settings", "set", path, value)


def _store_settings(interlock, document):
    """A row that no command writes, as another program or a later version of Interlock could."""
    interlock("settings", "set", "tools.fs.max_write_bytes", "4096")
    with sqlite3.connect(interlock.home / "state" / "interlock.db") as connection:
        connection.execute("UPDATE settings_versions SET document = ?", (document,))


@pytest.mark.parametrize(
    ("document", "path", "fault"),
    [
        ("{", "", "not JSON"),
        ('"off"', "", "not an object"),
        ('{"tools": {"fs": "off"}}', "tools.fs", "group of settings"),
        ('{"tools": {"fs": {"enabled": "yes"}}}', "tools.fs.enabled", "must be true or false"),
        ('{"tools": {"denied_tools": [7], "fs": {}}}', "tools.denied_tools", "must be a text"),
    ],
)
def test_broken_stored_settings_are_shown_and_repaired(interlock, document, path, fault):
    _store_settings(interlock, document)
    told = interlock.json("settings", "show", expect=1)
    assert (told["version"], told["settings"], told["effective"]) == (1, None, None)
    (found,) = told["faults"]
    assert found["path"].startswith(path)
    assert fault in found["message"]
    shown = interlock("settings", "show", expect=1)
    (row,) = [line for line in shown.stdout.splitlines() if fault in line]
    assert row.startswith(path or "(all)")
    repair = "tools.fs.enabled" if path in ("", "tools.fs") else path
    assert f"interlock settings set {repair} VALUE" in shown.stderr
    findings = {each["what"]: each for each in interlock.json("doctor", expect=1)}
    assert findings["stored settings"]["state"] == "failed"
    assert fault in findings["stored settings"]["detail"]
    assert "interlock settings show" in interlock("tool", "call", "current_time", expect=1).stderr

    repaired = interlock("settings", "set", "tools.memory.enabled", "true")
    assert "version 1 of the stored settings cannot be read" in repaired.stderr
    told = interlock.json("settings", "show")
    assert (told["version"], told["faults"]) == (2, [])
    assert told["settings"]["tools"]["memory"]["enabled"] is True
    assert told["settings"]["tools"]["fs"]["enabled"] is False


def test_a_stored_setting_that_this_version_does_not_know_is_shown(interlock):
    _store_settings(interlock, '{"tools": {"fs": {"enabled": false}, "later": {"a": 1}}}')
    told = interlock.json("settings", "show")
    assert told["unknown"] == {"tools.later.a": 1}
    assert told["settings"]["tools"]["fs"]["enabled"] is False
    assert "warning: tools.later.a is stored (1)" in interlock("settings", "show").stderr


def test_a_denied_tool_that_does_not_exist_is_pointed_out(interlock):
    assert "there is no such tool" in interlock("settings", "set", "tools.denied_tools", '["bsh"]').stderr


def test_a_group_and_an_effect_of_tools_can_be_denied_and_the_denial_says_which(interlock):
    saved = interlock("settings", "set", "tools.denied_tools", '["group:world", "effect:exec"]')
    assert "no such tool" not in saved.stderr
    for tool, mode, kind in (("current_time", "chat", "group world"), ("bash", "coding", "effect exec")):
        told = interlock("policy", "explain", tool, "--mode", mode, expect=3).stdout
        assert f"its {kind} is on the list of denied tools in the stored settings" in told
        assert "(tools.denied_tools)" in told
    refused = interlock("settings", "set", "tools.denied_tools", '["group:wrold"]', expect=1).stderr
    assert "tools.denied_tools: 'group:wrold' names no group of tools; did you mean group:world?" in refused
    interlock.variables["TOOL_DENIED"] = "effect:read"
    told = interlock("policy", "explain", "current_time", "--mode", "chat", expect=3).stdout
    assert "its effect read is on the list of denied tools in the operator's environment settings" in told


def test_a_choice_is_set_by_its_word_and_the_operators_stricter_one_holds(interlock):
    interlock("settings", "set", "tools.shell.unknown", "ask")
    assert interlock.json("settings", "show")["effective"]["tools"]["shell"]["unknown"] == "ask"
    interlock.variables["TOOL_SHELL_UNKNOWN"] = "deny"
    shown = interlock.json("settings", "show")
    values = [shown[each]["tools"]["shell"]["unknown"] for each in ("settings", "effective")]
    assert values == ["ask", "deny"]
    assert "is not JSON" in interlock("settings", "set", "tools.shell.unknown", "perhaps", expect=1).stderr


def test_the_operator_restricts_a_tool_to_some_of_its_modes(interlock):
    interlock.variables["TOOL_MODES"] = "current_time=coding"
    listed = interlock.json("tool", "list")
    assert {tool["name"]: tool["modes"] for tool in listed}["current_time"] == ["coding"]
    denied = interlock("tool", "call", "current_time", expect=3)
    assert "current_time is not allowed in chat_safe mode" in denied.stdout
    assert interlock("tool", "call", "current_time", "--mode", "coding").stdout
    interlock.variables["TOOL_MODES"] = "write_file=chat"
    assert "TOOL_MODES: an override can only tighten" in interlock("tool", "list", expect=1).stderr
    assert "TOOL_MODES: an override can only tighten" in str(interlock.json("doctor", expect=1))
    for wrong in ("write_file", "write_file=", "write_file=admin", "a b=chat"):
        interlock.variables["TOOL_MODES"] = wrong
        assert "TOOL_MODES" in interlock("config", "show", expect=1).stderr


def test_config_masks_secrets_and_tells_where_values_came_from(interlock):
    interlock.variables |= {
        "OPENAI_API_KEY": "sk-secret-secret",
        "AUTONOUS_TOOL_TIMEOUT_SECONDS": "7",
        "TOOL_TIMEOUT": "5",
    }
    done = interlock("config", "show")
    assert "sk-secret" not in done.stdout
    assert "TOOL_TIMEOUT is set but is not a setting; did you mean" in done.stderr
    rows = {row["name"]: row for row in interlock.json("config", "show")["settings"]}
    assert rows["TOOL_TIMEOUT_SECONDS"] == {
        "name": "TOOL_TIMEOUT_SECONDS",
        "value": "7.0",
        "origin": "AUTONOUS_TOOL_TIMEOUT_SECONDS",
    }
    assert rows["OPENAI_API_KEY"]["value"] == "********"


def test_a_backup_brings_everything_back(interlock, tmp_path):
    session = interlock.json("tool", "call", "current_time")["session_id"]
    told = interlock.json("backup", str(tmp_path / "b.zip"))
    assert told["rows"]["events"] == 4
    other = CliRunner(tmp_path / "other")
    other.home.mkdir()
    other("restore", str(tmp_path / "b.zip"))
    assert [s["id"] for s in other.json("sessions", "list", "--group", "all")] == [session]
    assert "--replace" in one_line_error(other, "restore", str(tmp_path / "b.zip"))
    assert "saved as" in other("restore", str(tmp_path / "b.zip"), "--replace").stderr


def test_the_doctor_finds_a_sound_installation_sound(interlock):
    assert {finding["state"] for finding in interlock.json("doctor")} == {"ok"}


def test_the_schema_is_upgraded_on_request(interlock):
    assert interlock.json("db", "upgrade") == {"before": None, "after": SCHEMA_REVISION}
    assert "unchanged" in interlock("db", "upgrade").stdout


@each_row(
    "arguments",
    [
        ["nonsense"],
        ["policy", "explain"],
        ["tool", "call"],
        ["events", "tail", "--limit", "many"],
        ["--nonsense"],
    ],
)
def test_wrong_usage_exits_with_2(interlock, arguments):
    done = interlock(*arguments, expect=2)
    assert done.stdout == "" or "Usage" in done.stdout


def test_help_and_version_need_no_store(interlock):
    assert "policy" in interlock("--help").stdout
    assert interlock("--version").stdout.strip() == "0.1.0"
    assert "explain" in interlock("policy", "--help").stdout
    assert not (interlock.home / "state").exists()
