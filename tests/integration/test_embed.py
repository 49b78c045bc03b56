"""Interlock within another program: the same gates, and functions as tools."""

import asyncio
import threading
import time
from datetime import date
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field

from interlock import embed
from interlock.core.errors import ConfigurationError
from interlock.embed import (
    Effect,
    ErrorCode,
    ModeNotOpen,
    ToolArguments,
    ToolContext,
    ToolError,
    ToolMode,
    ToolResult,
    TypedTool,
    open_gates,
    tool,
)
from tests.harness.log_capture import capture_logs


@tool(modes=["chat", "coding"], effect="read")
def days_until(day: date, today: Annotated[date, Field(description="Instead of today.")]) -> str:
    """Tell how many days there are until a day."""
    assert isinstance(day, date)
    return str((day - today).days)


@tool(modes=["coding"], effect="write", switches=["fs"])
async def publish(text: str, times: int = 1) -> dict[str, int]:
    """Publish a text."""
    return {"published": len(text) * times}


@pytest.fixture(autouse=True)
def _home(monkeypatch, tmp_path):
    monkeypatch.setenv("INTERLOCK_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("WORKSPACE_DIR", str(tmp_path / "workspace"))


@pytest.fixture
def folder(tmp_path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    (path / "notes.txt").write_text("buy milk\n")
    return path


def gates(folder: Path, *modes: str, tools=(days_until, publish)):
    return open_gates(modes=modes, roots=[folder], tools=tools)


def test_the_public_surface_is_this_and_no_more():
    assert sorted(embed.__all__) == [
        *("AuditUnavailable", "Authority", "BaseTool", "Effect", "ErrorCode", "GatedSession", "Gates"),
        *("InterlockError", "ModeNotOpen", "PolicySwitch", "ToolArguments", "ToolContext", "ToolError"),
        *(
            "ToolFailure",
            "ToolMode",
            "ToolResult",
            "TypedTool",
            "UndoReport",
            "VerificationReport",
            "open_gates",
            "tool",
        ),
    ]
    assert all(hasattr(embed, name) for name in embed.__all__)


async def test_a_function_is_called_with_the_types_of_its_signature(folder):
    async with gates(folder, "chat") as opened:
        session = await opened.session("chat")
        result = await session.call("days_until", {"day": "2026-12-24", "today": "2026-12-20"})
        assert (result.ok, result.stdout) == (True, "4")
        # As a model writes it.
        result = await session.call("days_until", '{"day": "2026-12-24", "today": "2026-12-23"}')
        assert result.stdout == "1"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"day": "2026-12-24"}, '"today" is a required property'),
        ({"day": 5, "today": "2026-12-20"}, "day"),
        ({"day": "not a day", "today": "2026-12-20"}, "day"),
        ({"day": "2026-12-24", "today": "2026-12-20", "more": 1}, "more"),
        ("{", "not valid JSON"),
    ],
)
async def test_arguments_that_do_not_fit_the_signature_never_reach_the_function(folder, arguments, said):
    async with gates(folder, "chat") as opened:
        result = await (await opened.session("chat")).call("days_until", arguments)
    assert result.failure.error_code is ErrorCode.INVALID_ARGS
    assert said in result.failure.message


class RepeatArguments(ToolArguments):
    text: str = Field(min_length=1)
    times: int = Field(default=2, ge=1, le=9)


class RepeatTool(TypedTool):
    name = "repeat"
    description = "Repeat a text."
    arguments = RepeatArguments
    allowed_modes = frozenset({ToolMode.chat})
    effect = Effect.read

    async def execute(self, prepared: RepeatArguments, context: ToolContext) -> ToolResult:
        return ToolResult(stdout=prepared.text * prepared.times)


async def test_a_tool_is_declared_by_class_attributes_and_a_model_of_its_arguments(folder):
    async with gates(folder, "chat", tools=[RepeatTool()]) as opened:
        session = await opened.session("chat")
        offered = {entry["function"]["name"]: entry["function"] for entry in await session.offered()}
        assert offered["repeat"]["parameters"]["required"] == ["text"]
        assert (await session.call("repeat", {"text": "ab", "times": 3})).stdout == "ababab"
        assert (await session.call("repeat", {"text": "ab"})).stdout == "abab"
        refused = await session.call("repeat", {"text": "ab", "times": 10})
    assert refused.failure.message == "times: 10 is greater than the maximum of 9"


async def test_what_a_mode_does_not_allow_is_neither_offered_nor_run(folder):
    async with gates(folder, "chat", "coding") as opened:
        session = await opened.session("chat")
        names = [entry["function"]["name"] for entry in await session.offered()]
        assert "days_until" in names
        assert "publish" not in names
        refused = await session.call("publish", {"text": "x"})
        assert refused.failure.error_code is ErrorCode.MODE_DENIED
        assert 'can switch it (switch("coding"))' in refused.failure.next_action
        await session.switch("coding")
        assert await session.mode() == "coding"
        assert (await session.call("publish", {"text": "abc", "times": 2})).stdout == '{"published":6}'
        report = await opened.verify()
        assert report.ok
        assert report.events >= 5


async def test_checkpoints_are_written_while_the_gates_are_open(folder, monkeypatch):
    monkeypatch.setenv("EVENT_CHECKPOINT_EVENTS", "1")
    async with gates(folder, "chat") as opened:
        await opened.session("chat")
        async with asyncio.timeout(10):
            while not (await opened.verify()).coverage.signed:
                await asyncio.sleep(0.05)


async def test_a_mode_that_was_not_opened_is_refused(folder):
    async with gates(folder, "chat") as opened:
        with pytest.raises(ModeNotOpen):
            await opened.session("coding")
        with pytest.raises(ModeNotOpen):
            await (await opened.session("chat")).switch("coding")


async def test_the_operators_environment_is_the_ceiling(folder, monkeypatch):
    monkeypatch.setenv("TOOL_FS_ENABLED", "false")
    async with gates(folder, "coding") as opened:
        result = await (await opened.session("coding")).call("publish", {"text": "x"})
    assert result.failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE


async def test_the_operator_restricts_own_tools_to_fewer_modes(folder, monkeypatch):
    monkeypatch.setenv("TOOL_MODES", "days_until=coding")
    async with gates(folder, "chat") as opened:
        refused = await (await opened.session("chat")).call("days_until", {})
    assert refused.failure.error_code is ErrorCode.MODE_DENIED
    with pytest.raises(ConfigurationError, match="TOOL_MODES: there is no tool named 'days_until'"):
        async with gates(folder, tools=()):
            pass


async def test_a_session_goes_on_in_the_next_process_and_can_be_undone(folder):
    async with gates(folder, "coding") as opened:
        session = await opened.session("coding")
        await session.call("read_file", {"path": "notes.txt"})
    async with gates(folder, "coding") as opened:
        again = await opened.resume(session.id)
        await again.call("edit_file", {"path": "notes.txt", "find": "milk", "replace": "bread"})
        assert (folder / "notes.txt").read_text() == "buy bread\n"
        report = await again.undo()
    assert [outcome.reason for outcome in report.outcomes] == [None]
    assert (folder / "notes.txt").read_text() == "buy milk\n"


async def test_the_log_is_kept_where_the_program_says(folder, tmp_path):
    async with open_gates(state_dir=tmp_path / "elsewhere") as opened:
        await opened.session()
    assert (tmp_path / "elsewhere" / "interlock.db").exists()
    assert not (tmp_path / "state").exists()


async def test_the_state_folder_is_not_opened_to_tools_here_either(folder):
    with pytest.raises(ConfigurationError, match="state folder"):
        async with open_gates(roots=[folder], state_dir=folder / "state"):
            pass


async def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="no such folder"):
        async with open_gates(roots=[tmp_path / "nowhere"]):
            pass


async def test_what_a_function_raises_is_told_without_internals(folder):
    @tool(modes=["chat"], effect="read")
    def says_why() -> str:
        """Say why."""
        raise ToolError(ErrorCode.EXECUTION_ERROR, "the printer is off", "Switch it on.")

    @tool(modes=["chat"], effect="read")
    def breaks() -> str:
        """Break."""
        raise RuntimeError("internal detail")

    async with gates(folder, "chat", tools=[says_why, breaks]) as opened:
        session = await opened.session("chat")
        told = await session.call("says_why")
        broken = await session.call("breaks")
    assert told.failure.message == "the printer is off"
    assert "internal detail" not in str(broken.as_dict())
    assert broken.failure.error_code is ErrorCode.EXECUTION_ERROR


async def test_a_function_that_blocks_runs_beside_the_loop_and_ends_with_its_time(folder):
    where, may_end = [], threading.Event()

    @tool(modes=["chat"], effect="read")
    def waits() -> str:
        """Wait."""
        where.append(threading.current_thread())
        may_end.wait(20)
        return "late"

    async with gates(folder, "chat", tools=[waits]) as opened:
        began = time.monotonic()
        result = await (await opened.session("chat")).call("waits", timeout_seconds=0.2)
        took = time.monotonic() - began
    may_end.set()
    assert result.failure.error_code is ErrorCode.TIMEOUT
    assert took < 15
    assert where[0] is not threading.main_thread()


async def test_a_function_may_give_a_whole_result(folder):
    @tool(modes=["chat"], effect="read")
    async def whole() -> ToolResult:
        """Give a whole result."""
        return ToolResult(stdout="seen", meta={"pages": 2})

    async with gates(folder, "chat", tools=[whole]) as opened:
        result = await (await opened.session("chat")).call("whole")
    assert result.as_dict()["meta"] == {"pages": 2}


def test_a_function_must_say_what_it_is():
    with pytest.raises(TypeError, match="docstring"):

        @tool(modes=["chat"], effect="read")
        def silent() -> None: ...

    with pytest.raises(TypeError, match="name its parameters"):

        @tool(modes=["chat"], effect="read")
        def anything(**given: str) -> None:
            """Take anything."""

    with pytest.raises(TypeError, match="name its parameters"):

        @tool(modes=["chat"], effect="read")
        def by_place(first: str, /) -> None:
            """Take something that has no name for whoever calls."""

    with pytest.raises(ValueError, match="is not a mode"):

        @tool(modes=["everywhere"], effect="read")
        def lost() -> None:
            """Name a mode that is none."""


@pytest.mark.parametrize(
    "given",
    [{"modes": "chat"}, {"modes": ["chat"], "switches": "fs"}, {"modes": ["chat"], "needs": "roots"}],
)
def test_one_name_is_not_taken_for_a_list_of_letters(given):
    with pytest.raises(TypeError, match="must be a list, not a single text"):
        tool(effect="read", **given)


@pytest.mark.parametrize("given", [{"modes": "chat"}, {"roots": "./"}])
async def test_one_folder_is_not_taken_for_a_list_of_letters(given):
    """Of "./" the second would be the whole disk."""
    with pytest.raises(TypeError, match="must be a list, not a single text"):
        async with open_gates(**given):
            pass


@pytest.mark.parametrize("switch", ["TOOL_SHELL_ENABLED", "TOOL_FS_ENABLED"])
async def test_what_changes_things_and_names_no_switch_is_off_with_commands(folder, monkeypatch, switch):
    @tool(modes=["coding"], effect="write")
    def writes() -> str:
        """Write."""
        return "written"

    async with gates(folder, "coding", tools=[writes]) as opened:
        assert str(await (await opened.session("coding")).call("writes")) == "written"
    monkeypatch.setenv(switch, "false")
    async with gates(folder, "coding", tools=[writes]) as opened:
        refused = await (await opened.session("coding")).call("writes")
    assert refused.failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE


async def test_a_bare_decorator_makes_a_tool_that_no_mode_offers(folder):
    @tool
    def bare(text: str) -> str:
        """Say it again."""
        return text

    assert (bare.name, bare.description, bare.effect) == ("bare", "Say it again.", embed.Effect.exec)
    assert set(bare.parameters["properties"]) == {"text"}
    with capture_logs() as logs:
        async with gates(folder, "chat", "plan", "coding", tools=[bare]) as opened:
            for mode in ("chat_safe", "chat", "plan", "coding"):
                session = await opened.session(mode)
                assert "bare" not in [each["function"]["name"] for each in await session.offered()]
                refused = (await session.call("bare", {"text": "x"})).failure
                assert refused.error_code is ErrorCode.MODE_DENIED
                assert '@tool(modes=["chat", "coding"], effect="read")' in refused.next_action
    assert "tool_registered_with_default_modes" in [line["event"] for line in logs]


async def test_a_decorator_with_modes_alone_counts_as_the_most_dangerous(folder, monkeypatch):
    @tool(modes=["chat"])
    def undeclared() -> str:
        """Do something."""
        return "done"

    async with gates(folder, "chat", tools=[undeclared]) as opened:
        assert str(await (await opened.session("chat")).call("undeclared")) == "done"
    monkeypatch.setenv("TOOL_SHELL_ENABLED", "false")
    async with gates(folder, "chat", tools=[undeclared]) as opened:
        assert not (await (await opened.session("chat")).call("undeclared")).ok
