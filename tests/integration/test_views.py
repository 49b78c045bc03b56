"""The matrix and the judgement of one call, from a whole runtime."""

import pytest

from interlock.config.modes import ToolMode
from interlock.config.settings import Settings
from interlock.core.errors import ConfigurationError
from interlock.policy.policy_fields import ToolPolicy
from interlock.policy.verdict import ModeSwitchMethod
from interlock.sessions.runtime_settings import StoredSettings, patch_for
from interlock.wiring import open_runtime
from interlock.wiring.authority_inputs import AT_WORK

SECRET = "sk-known-secret-value"


@pytest.fixture
async def runtime(tmp_path, monkeypatch):
    (tmp_path / "root").mkdir()
    for name, value in {
        "INTERLOCK_STATE_DIR": tmp_path / "state",
        "WORKSPACE_DIR": tmp_path / "workspace",
        "TOOL_ALLOWED_ROOTS": tmp_path / "root",
        "SESSION_OPEN_MODES": "chat",
        "OPENAI_API_KEY": SECRET,
    }.items():
        monkeypatch.setenv(name, str(value))
    opened = open_runtime(Settings())
    yield opened
    await opened.close()


def cell(told: dict, tool: str, mode: str) -> dict:
    return next(row["modes"][mode] for row in told["tools"] if row["name"] == tool)


async def test_the_matrix_holds_what_calls_are_judged_by(runtime):
    told = await runtime.views.matrix()
    assert told["open_modes"] == ["chat", "chat_safe"]
    assert [row["name"] for row in told["tools"]] == [entry.tool.name for entry in runtime.registry]
    for mode in ToolMode:
        authority = await runtime.authority(mode, offered=AT_WORK)
        assert told["digests"][mode] == authority.digest
        allowed = {row["name"] for row in told["tools"] if row["modes"][mode]["allowed"]}
        assert allowed == set(authority.exposed)
    assert cell(told, "write_file", "coding")["layer"] == "mode"
    assert cell(told, "write_file", "coding")["if_opened"] == {"allowed": True}


async def test_an_agent_has_a_matrix_of_its_own(runtime):
    told = await runtime.views.matrix(agent=ToolPolicy(denied_tools=frozenset({"read_file"})))
    assert cell(told, "read_file", "chat")["decided_by"] == "the agent's policy"
    assert cell(await runtime.views.matrix(), "read_file", "chat") == {"allowed": True}


async def test_settings_can_be_tried_out_without_being_stored(runtime):
    before = await runtime.views.matrix()
    tried = await runtime.stored_settings.preview(patch_for("tools.denied_tools", ["read_file"]))
    told = await runtime.views.matrix(settings=tried.tools)
    assert cell(told, "read_file", "chat")["layer"] == "settings"
    assert told["digests"]["chat"] != before["digests"]["chat"]
    assert await runtime.views.matrix() == before
    assert (await runtime.authority(ToolMode.chat, offered=AT_WORK)).digest == before["digests"]["chat"]
    assert (await runtime.stored_settings.current()).version == 0
    await runtime.stored_settings.update(patch_for("tools.denied_tools", ["read_file"]), who="test")
    assert await runtime.views.matrix() == told
    assert await runtime.views.matrix(settings=StoredSettings().tools) == before


async def test_one_call_is_judged_for_a_person_and_does_not_run(runtime, tmp_path):
    place = tmp_path / "root" / "a.txt"
    place.write_text("hello")
    told = await runtime.views.explain(
        "read_file", ToolMode.chat, {"path": str(place)}, way=ModeSwitchMethod.page
    )
    assert (told["allowed"], told["tool_name"], told["mode"]) == (True, "read_file", "chat")
    outside = await runtime.views.explain(
        "read_file", ToolMode.chat, f'{{"path": "{tmp_path}/b"}}', way=ModeSwitchMethod.page
    )
    assert (outside["layer"], outside["error_code"]) == ("arguments", "PATH_DENIED")
    closed = await runtime.views.explain("write_file", ToolMode.coding, way=ModeSwitchMethod.page)
    assert (closed["allowed"], closed["layer"]) == (False, "mode")
    denied = ToolPolicy(denied_tools=frozenset({"read_file"}))
    told = await runtime.views.explain("read_file", ToolMode.chat, agent=denied, way=ModeSwitchMethod.page)
    assert told["layer"] == "agent"


async def test_a_call_is_judged_by_what_its_session_has_seen(runtime, tmp_path):
    place = tmp_path / "root" / "a.txt"
    place.write_text("hello")
    told = await runtime.views.explain(
        "read_file",
        ToolMode.chat,
        {"path": str(place)},
        session_id="s_1",
        way=ModeSwitchMethod.page,
    )
    assert told["allowed"] is True
    with runtime.database.reading() as connection:
        assert connection.query("SELECT count(*) FROM events WHERE stream <> 'system'") == [(0,)]


async def test_no_secret_is_quoted_in_an_explanation(runtime):
    told = await runtime.views.explain(SECRET, ToolMode.chat_safe, way=ModeSwitchMethod.page)
    assert SECRET not in str(told)
    assert "***REDACTED***" in told["message"]


async def test_what_is_old_is_erased_only_where_the_operator_said_so(runtime, monkeypatch):
    assert runtime.retention is None
    monkeypatch.setenv("EVENT_RETENTION_DAYS", "7")
    again = open_runtime(Settings())
    assert again.retention is not None
    assert (await again.retention.sweep()).events == 0
    await again.close()


@pytest.mark.parametrize(
    ("modes", "said"),
    [
        ("read_flie=chat", "there is no tool named 'read_flie'; did you mean read_file"),
        ("current_time=chat, write_file=chat", "write_file does not declare chat"),
        ("read_file=chat, fs.read=plan", "read_file occurs twice"),
    ],
)
def test_modes_of_tools_that_cannot_hold_stop_the_start(tmp_path, monkeypatch, modes, said):
    monkeypatch.setenv("INTERLOCK_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("TOOL_MODES", modes)
    with pytest.raises(ConfigurationError, match=f"TOOL_MODES: .*{said}"):
        open_runtime(Settings())


async def test_the_operator_takes_modes_from_a_tool(tmp_path, monkeypatch):
    monkeypatch.setenv("INTERLOCK_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("TOOL_MODES", "current_time=plan+build")
    runtime = open_runtime(Settings(), opened=list(ToolMode))
    try:
        told = await runtime.views.matrix()
        allowed = {mode for mode in ToolMode if cell(told, "current_time", mode)["allowed"]}
        explained = await runtime.views.explain("current_time", ToolMode.chat, way=ModeSwitchMethod.page)
        offered = await runtime.authority(ToolMode.chat)
    finally:
        await runtime.close()
    assert allowed == {ToolMode.plan, ToolMode.coding}
    for answer in (cell(told, "current_time", "chat"), explained):
        assert (answer["layer"], answer["decided_by"]) == ("override", "the operator's TOOL_MODES")
    assert "needs plan or coding mode" in explained["next_action"]
    assert "current_time" not in offered.exposed
    assert b"current_time" not in offered.schemas
