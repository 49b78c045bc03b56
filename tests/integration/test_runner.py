"""The runner on a real log: intent before effect, outcome before show, and nothing gets out."""

import asyncio
import time
from hashlib import sha256

import pytest

from interlock.config.modes import ToolMode
from interlock.core.errors import AuditUnavailable, ErrorCode, SessionFenced, StoreError, ToolError
from interlock.gates.recovery import record_interrupted_calls
from interlock.gates.sanitize import sanitize_result
from interlock.log.stream_appender import EventScope
from interlock.log.writer import TaskAppender
from interlock.policy.authority import compile_authority
from interlock.policy.authority_inputs import AuthorityInputs
from interlock.policy.policy_fields import ToolPolicy
from interlock.redaction.redactor import MARK, Redactor
from interlock.tools.paging import LinePage, PageText
from interlock.tools.result import ToolResult
from interlock.tools.tool import Effect, PolicySwitch, ToolLimits
from tests.harness.log_capture import capture_logs
from tests.harness.single_tool import SECRET
from tests.harness.tools import DeclaredTool, file_reader


async def test_a_call_leaves_its_intent_and_its_outcome(make_harness):
    echo = make_harness()
    result = await echo.call('{"text": "hello"}', scope=EventScope("task_1", "turn_1"))
    assert (result.ok, result.stdout) == (True, "hello")
    (started, intent), (completed, outcome) = echo.events()
    assert (started, completed) == ("tool_call.started", "tool_call.completed")
    assert intent["arguments"] == {"text": "hello"}
    assert intent["authority_digest"] == outcome["authority_digest"] == echo.authority.digest
    assert outcome["exit_code"] == 0
    assert outcome["latency_ms"] >= 0
    assert (outcome["truncated_lines"], outcome["truncated_bytes"]) == (False, False)


async def test_events_stand_under_the_scope_that_caused_them(make_harness):
    echo = make_harness()
    await echo.call(scope=EventScope("task_1", "turn_1"))
    rows = echo.store.query(
        "SELECT id, task, parent FROM events WHERE stream = ? ORDER BY seq", echo.session_id
    )
    _, started, completed = rows
    assert started[1:] == ("task_1", "turn_1")
    assert completed[1:] == ("task_1", started[0])


async def test_the_intent_is_on_disk_before_the_tool_has_any_effect(make_harness):
    seen = []

    def look(_arguments, _context):
        other = probe.store.config.connect()
        seen.extend(
            other.query("SELECT kind FROM events WHERE stream = ? ORDER BY seq", (probe.session_id,))
        )
        other.close()
        return ToolResult()

    probe = make_harness(DeclaredTool(run=look))
    await probe.call()
    assert seen == [("session.created",), ("tool_call.started",)]


async def test_a_call_whose_intent_cannot_be_recorded_does_not_run(make_harness, monkeypatch):
    echo = make_harness()
    assert (await echo.call()).ok
    before = echo.events()

    def full(_connection, _units):
        raise StoreError("no space left")

    monkeypatch.setattr(echo.store.log._writer, "_apply", full)
    with pytest.raises(AuditUnavailable):
        await echo.call()
    assert (echo.tool.calls, echo.events()) == (1, before)


async def test_a_denied_call_intends_nothing(make_harness):
    denied = make_harness(file_reader())
    result = await denied.call('{"path": "a"}', name="read")
    assert result.as_dict()["error_code"] == "MODE_DENIED"
    assert denied.tool.calls == 0
    ((kind, payload),) = denied.events()
    assert kind == "tool_call.denied"
    assert payload["layer"] == "declaration"
    assert payload["error_class"] == "policy"
    assert (payload["tool_name"], payload["requested_name"]) == ("read_file", "read")
    assert payload["authority_digest"] == denied.authority.digest


@pytest.mark.parametrize(("name", "code"), [("nonsense", "TOOL_NOT_FOUND"), ("echo", "INVALID_ARGS")])
async def test_a_mistake_is_a_failure_and_not_a_denial(make_harness, name, code):
    echo = make_harness()
    result = await echo.call('{"text": 5}', name=name)
    assert result.as_dict()["error_code"] == code
    assert result.as_dict()["error_class"] == "validation"
    assert result.exit_code != 0
    ((kind, payload),) = echo.events()
    assert (kind, payload["error_code"]) == ("tool_call.failed", code)


async def test_a_tool_that_raises_is_a_failure_without_its_internals(make_harness):
    def explode(_arguments, _context):
        raise RuntimeError(f"/etc/shadow {SECRET}")

    broken = make_harness(DeclaredTool(run=explode))
    with capture_logs() as logs:
        result = await broken.call()
    told = result.as_dict()
    assert (told["error_code"], told["error_class"]) == ("EXECUTION_ERROR", "unknown")
    assert "RuntimeError" in told["message"]
    assert "shadow" not in str(told)
    assert broken.kinds() == ["tool_call.started", "tool_call.failed"]
    assert logs[0]["event"] == "tool_raised"


async def test_a_tool_that_knows_why_it_failed_tells_the_model(make_harness):
    def stale(_arguments, _context):
        raise ToolError(ErrorCode.STALE_READ, "it changed", "Read it again.")

    failing = make_harness(DeclaredTool(run=stale))
    told = (await failing.call()).as_dict()
    assert (told["error_code"], told["error_class"]) == ("STALE_READ", "validation")
    assert told["message"] == "it changed"
    assert told["next_action"] == "Read it again."


async def test_a_refusal_found_while_running_is_a_denial_too(make_harness):
    def late(_arguments, _context):
        raise ToolError(ErrorCode.PATH_DENIED, "it moved outside", "Stay inside.")

    racing = make_harness(DeclaredTool(run=late))
    assert set((await racing.call()).as_dict()) == {
        *("ok", "error_code", "tool_name", "mode", "message", "next_action")
    }
    assert racing.kinds() == ["tool_call.started", "tool_call.denied"]


@pytest.mark.parametrize("returned", [None, {"ok": True}, "text"])
async def test_something_that_is_no_result_does_not_count_as_success(make_harness, returned):
    odd = make_harness(DeclaredTool(run=lambda _a, _c: returned))
    assert (await odd.call()).as_dict()["error_code"] == "EXECUTION_ERROR"


async def test_a_tool_that_takes_too_long_is_stopped(make_harness):
    stopped = asyncio.Event()

    async def sleep(_arguments, _context):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.set()
            raise

    slow = make_harness(DeclaredTool(run=sleep), timeout_seconds=0.05)
    told = (await slow.call()).as_dict()
    assert (told["error_code"], told["error_class"]) == ("TIMEOUT", "timeout")
    assert stopped.is_set()
    assert slow.kinds() == ["tool_call.started", "tool_call.failed"]


async def test_a_tool_that_will_not_stop_cannot_hold_its_caller(make_harness, monkeypatch):
    monkeypatch.setattr("interlock.gates.runner.GRACE_SECONDS", 0.05)
    release = asyncio.Event()

    async def stubborn(_arguments, _context):
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return ToolResult()

    slow = make_harness(DeclaredTool(run=stubborn), timeout_seconds=0.05)
    began = time.monotonic()
    with capture_logs() as logs:
        assert (await slow.call()).as_dict()["error_code"] == "TIMEOUT"
    assert time.monotonic() - began < 5
    assert "tool_ignored_cancel" in [entry["event"] for entry in logs]
    release.set()


async def test_a_cancelled_call_ends_in_the_log_and_stays_cancelled(make_harness):
    running = asyncio.Event()

    async def wait(_arguments, _context):
        running.set()
        await asyncio.sleep(60)

    slow = make_harness(DeclaredTool(run=wait))
    task = asyncio.create_task(slow.call())
    await running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    kind, payload = slow.events()[-1]
    assert (kind, payload["error_code"]) == ("tool_call.failed", "CANCELLED")


async def test_a_call_cancelled_before_its_intent_is_written_leaves_nothing(make_harness):
    echo = make_harness()
    task = asyncio.create_task(echo.call())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (echo.tool.calls, echo.kinds()) == (0, [])


@pytest.mark.parametrize("kinds", [("tool_call.started",), ("tool_call.started", "tool_call.failed")])
async def test_a_call_cancelled_while_its_intent_is_written_never_runs_and_is_told(
    make_harness, monkeypatch, kinds
):
    """Once, and once more while it is written that it was."""
    echo = make_harness()
    append = TaskAppender.append

    def cancelling(appender, draft, **more):
        writing = append(appender, draft, **more)
        if draft.kind in kinds:
            task.cancel()
        return writing

    monkeypatch.setattr(TaskAppender, "append", cancelling)
    task = asyncio.create_task(echo.call())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert echo.tool.calls == 0
    assert echo.kinds() == ["tool_call.started", "tool_call.failed"]
    assert echo.events()[-1][1]["error_code"] == "CANCELLED"


async def test_long_output_is_cut_and_told(make_harness):
    loud = make_harness(
        DeclaredTool(run=lambda _a, _c: ToolResult(stdout="line\n" * 10, stderr="x" * 99)),
        max_output_lines=3,
        max_output_bytes=20,
    )
    result = await loud.call()
    assert result.stdout == "line\n" * 3
    assert len(result.stderr) == 20
    assert (result.truncated_lines, result.truncated_bytes) == (True, True)
    assert loud.events()[-1][1]["truncated_lines"] is True


async def test_a_page_is_shown_as_its_pager_made_it_and_text_made_from_it_is_not(make_harness):
    """A pager redacts before it cuts, so the runner does neither to a page again."""
    page = PageText("x\n" * 100)
    results = iter([ToolResult(stdout=page, stderr="y" * 99), ToolResult(stdout=f"{page}{SECRET}")])
    loud = make_harness(
        DeclaredTool(run=lambda _a, _c: next(results)), max_output_lines=3, max_output_bytes=20
    )
    paged, other = await loud.call(), await loud.call()
    assert (paged.stdout, paged.stderr, paged.truncated_lines) == (page, "y" * 20, False)
    assert type(paged.stdout) is str
    assert (other.stdout, other.truncated_lines, other.redacted) == ("x\n" * 3, True, True)


async def test_the_text_of_a_page_is_redacted_once(monkeypatch):
    redactor, seen = Redactor([SECRET]), []
    checked = redactor.checked
    monkeypatch.setattr(redactor, "checked", lambda value: (seen.append(str(value)), checked(value))[1])
    limits = ToolLimits(100, 100, 10, 100, 1.0, 1.0)
    page = LinePage(limits, redactor)
    page.add(f"before {SECRET} behind")
    result = sanitize_result(ToolResult(stdout=page.text, stderr=SECRET), limits, redactor)
    assert (result.stdout, result.stderr) == (f"before {MARK} behind\n", MARK)
    assert "behind" not in str(seen)


async def test_long_arguments_are_cut_in_the_log_and_not_for_the_tool(make_harness):
    seen = []

    def keep(arguments, _context):
        seen.append(arguments["text"])
        return ToolResult()

    echo = make_harness(DeclaredTool(run=keep))
    await echo.call({"text": "x" * 10_000})
    assert seen == ["x" * 10_000]
    recorded = echo.events()[0][1]["arguments"]["text"]
    assert len(recorded) < 4100
    assert recorded.endswith(f"(10000 characters, sha256 {sha256(b'x' * 10000).hexdigest()})")


async def test_nothing_of_a_command_hides_behind_its_beginning(make_harness):
    """Where the gates are embedded, or called from a terminal, no transcript has the rest of it."""
    runs = make_harness(DeclaredTool("run", effect=Effect.exec, switches=frozenset({PolicySwitch.shell})))
    command = "#" * 90_000 + "\nrm -r build"
    await runs.call({"text": command})
    assert runs.events()[0][1]["arguments"]["text"] == command


async def test_known_secrets_reach_neither_the_caller_nor_the_log(make_harness):
    def leak(arguments, _context):
        assert arguments["text"] == SECRET  # it executes as the model gave it
        return ToolResult(stdout=f"key={SECRET}", stderr=SECRET, meta={"k": [SECRET]})

    leaky = make_harness(DeclaredTool(run=leak))
    result = await leaky.call('{"text": "%s"}' % SECRET)
    assert result.stdout == f"key={MARK}"
    assert SECRET not in str(result.as_dict())
    assert SECRET not in str(leaky.events())
    assert [payload["redacted"] for _, payload in leaky.events()] == [True, True]


async def test_a_worker_that_lost_its_session_runs_nothing(make_harness):
    echo = make_harness()
    with pytest.raises(SessionFenced):
        await echo.call(lease_token=7)
    assert echo.tool.calls == 0
    assert echo.kinds() == []


async def test_an_intent_without_an_outcome_is_told_after_a_crash(make_harness):
    """The process dies between intent and outcome: only the intent is in the log."""

    for effect in (Effect.read, Effect.write):
        writer = make_harness(
            DeclaredTool(
                run=lambda _a, _c: asyncio.sleep(60),
                effect=effect,
                switches=frozenset({PolicySwitch.fs}),
            )
        )
        task = asyncio.create_task(writer.call(scope=EventScope("task_1", None)))
        while writer.kinds()[-1:] != ["tool_call.started"]:
            await asyncio.sleep(0.01)
        settled = await record_interrupted_calls(writer.store.log, writer.session_id, token=None)
        assert [(call.call_id, call.effect) for call in settled] == [("call_1", effect)]
        assert await record_interrupted_calls(writer.store.log, writer.session_id, token=None) == []
        assert writer.kinds()[-1] == "tool_call.interrupted"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_finished_calls_are_not_called_interrupted(make_harness):
    echo = make_harness()
    await echo.call()
    await echo.call('{"text": 5}')
    assert await record_interrupted_calls(echo.store.log, echo.session_id, token=None) == []


async def test_a_policy_in_force_is_judged_by_its_own_authority(make_harness):
    echo = make_harness()
    denied = ToolPolicy(denied_tools=frozenset({"echo"}))
    echo.authority = compile_authority(
        echo.registry, AuthorityInputs(mode=ToolMode.chat_safe, settings=denied)
    )
    assert (await echo.call()).as_dict()["error_code"] == "TOOL_NOT_AVAILABLE"
    assert echo.events()[-1][1]["layer"] == "settings"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("echo", {"text": f"the key is {SECRET}"}),
        (f"echo {SECRET}", {}),
        ("x" * 60 + SECRET, {}),
        ("echo", {f"field-{SECRET}": 1}),
        ("echo", {"text": 5, "password": "correct horse"}),
    ],
)
async def test_whatever_is_masked_of_a_call_is_told_with_its_outcome(make_harness, name, arguments):
    echo = make_harness()
    await echo.call(arguments, name=name)
    kind, outcome = echo.events()[-1]
    assert MARK[:4] in str(outcome) or kind == "tool_call.completed"
    assert outcome["redacted"] is True
    assert SECRET[:8] not in str(echo.events())


async def test_a_text_that_could_not_be_stored_was_not_masked(make_harness):
    def odd(_arguments, _context):
        raise ToolError(ErrorCode.EXECUTION_ERROR, "half a character: \ud800", "Go on.")

    failing = make_harness(DeclaredTool(run=odd))
    await failing.call()
    assert failing.events()[-1][1]["redacted"] is False


async def test_what_a_tool_masked_itself_is_told_too(make_harness):
    def masks(arguments, _context):
        if arguments["text"] == "raise":
            raise ToolError(ErrorCode.EXECUTION_ERROR, f"it said {MARK}", "Go on.", redacted=True)
        return ToolResult(stdout=f"it said {MARK}", redacted=True)

    masking = make_harness(DeclaredTool(run=masks))
    for text in ("return", "raise"):
        result = await masking.call({"text": text})
        assert (result.redacted, masking.events()[-1][1]["redacted"]) == (True, True)
    refusing = make_harness(
        DeclaredTool(refusal=ToolError(ErrorCode.PATH_DENIED, MARK, "Go on.", redacted=True))
    )
    await refusing.call()
    assert refusing.events()[-1][1]["redacted"] is True


# -- what a refused call was given ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("nonsense", '{"path": "a"}', {"path": "a"}),
        ("nonsense", {"path": "a"}, {"path": "a"}),
        ("echo", '{"text": 5}', {"text": 5}),
        ("echo", "not json", "not json"),
        ("echo", f'{{"text": "{SECRET}', f'{{"text": "{MARK}'),
        ("echo", f'{{"more": "{SECRET}"}}', {"more": MARK}),
        ("echo", '["a list"]', '["a list"]'),
        ("echo", b"\xff\x00", "\ufffd\ufffd"),
        ("echo", "\ud800", "\ufffd"),
        ("echo", {"text": {1, 2}}, {"text": [1, 2]}),
        ("echo", None, None),
        ("echo", "", {}),
    ],
)
async def test_a_call_that_is_refused_keeps_what_it_was_given(make_harness, name, given, kept):
    refusing = make_harness(
        DeclaredTool(parameters={"type": "object", "properties": {}, "required": ["x"]})
    )
    assert not (await refusing.call(given, name=name)).ok
    ((kind, payload),) = refusing.events()
    assert kind == "tool_call.failed"
    assert payload["arguments"] == kept
    assert payload["redacted"] is (MARK in str(kept))


async def test_a_call_that_is_denied_keeps_what_it_was_given(make_harness):
    denied = make_harness(file_reader())
    await denied.call(f'{{"path": "{SECRET}/a"}}')
    ((kind, payload),) = denied.events()
    assert (kind, payload["arguments"], payload["redacted"]) == (
        "tool_call.denied",
        {"path": f"{MARK}/a"},
        True,
    )


async def test_what_a_refused_call_was_given_is_bounded(make_harness):
    echo = make_harness(DeclaredTool(parameters={"type": "object", "properties": {}}))
    texts = ("x" * 5000, "not json " * 1000, "[" * 100_000)
    for given in ({"a": texts[0]}, {"b": ["y"] * 200_000}, {"c": "z" * 9_000_000}, *texts[1:]):
        await echo.call(given)
        kept = echo.events()[-1][1]["arguments"]
        assert len(str(kept)) < 4200
        assert "characters, sha256 " in str(kept)


async def test_a_command_that_is_refused_is_kept_whole(make_harness):
    shell = make_harness(DeclaredTool("sh", modes=frozenset({ToolMode.coding}), effect=Effect.exec))
    await shell.call({"text": "echo " + "x" * 50_000})
    ((kind, payload),) = shell.events()
    assert (kind, len(payload["arguments"]["text"])) == ("tool_call.denied", 50_005)


async def test_a_call_that_ran_has_its_arguments_once(make_harness):
    def fails(_arguments, _context):
        raise ToolError(ErrorCode.EXECUTION_ERROR, "no", "Go on.")

    failing = make_harness(DeclaredTool(run=fails))
    await failing.call({"text": "a"})
    (_, started), (_, failed) = failing.events()
    assert (started["arguments"], failed["arguments"]) == ({"text": "a"}, None)
