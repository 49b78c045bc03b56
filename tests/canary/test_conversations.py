"""Secrets in what people and models say, in titles and settings, in faults and in the process's own log."""

import json
from dataclasses import dataclass

import pytest

from interlock.core.errors import ErrorCode, InterlockError, InvalidStoredSettings, ToolError
from interlock.core.logging import StructuredLogger
from interlock.log.kinds import SettingsChanged
from interlock.sessions.models import Role
from interlock.tools.result import FileTouch, ToolResult
from tests.harness.canary import CanaryHarness
from tests.harness.tools import DeclaredTool


@dataclass(frozen=True)
class Thing:
    """Whose representation is all that can be said of it."""

    text: str

    def __repr__(self) -> str:
        return f"Thing({self.text})"


async def test_messages(harness: CanaryHarness):
    """What a model says, what it calls and what it is answered, as text and inside JSON."""
    sessions = harness.runtime.sessions
    for canary in harness.canaries:
        inner = {"cmd": canary.text, "deep": [{"x": canary.text}]}
        spelled = [{"id": "c1", "function": {"name": "bash", "arguments": json.dumps(inner)}}]
        plain = [{"id": canary.text, "name": canary.text, "arguments": inner}]
        for role, calls in zip(Role, (None, spelled, plain), strict=True):
            said = f"I saw {canary.text} there"
            message = await sessions.append_message(harness.session_id, role, said, tool_calls=calls)
            harness.heard("messages", repr(message))
    for canary in harness.canaries.alone:
        told = json.dumps({"stdout": canary.secret})
        await sessions.append_message(harness.session_id, Role.tool, told, tool_call_id=canary.secret)
    assert await harness.is_clean()


async def test_titles_authors_and_settings(harness: CanaryHarness):
    sessions, settings = harness.runtime.sessions, harness.runtime.stored_settings
    for canary in harness.canaries.alone:
        secret = canary.secret
        made = await sessions.create(opened_by=secret, title=f"about {secret}")
        await sessions.rename(made.id, f"{'x' * 90} {secret}", who=secret)
        await sessions.archive(made.id, who=secret)
        with pytest.raises(InvalidStoredSettings) as refused:
            await settings.update({"tools": {"denied_tools": [secret]}}, who=secret)
        assert secret not in str(refused.value)
        await settings.update({"tools": {"mcp": {"allowed_servers": [secret]}}}, who=secret)
    assert await harness.is_clean()


async def test_a_tool_that_tells_secrets_and_one_that_breaks(harness: CanaryHarness):
    """In everything a tool can give back, say meanwhile, or raise."""

    def tell(arguments, context):
        text = arguments["text"]
        context.report_progress(text)
        return ToolResult(
            stdout=text,
            stderr=text,
            next_page_cursor=text,
            meta={text: [text, {"deep": (text, {text})}, Thing(text), text.encode()]},
            touched=(FileTouch(path=text, action=text),),
        )

    def refuse(arguments, _context):
        raise ToolError(ErrorCode.EXECUTION_ERROR, arguments["text"], arguments["text"])

    def break_down(arguments, _context):
        try:
            raise KeyError(arguments["text"])
        except KeyError as error:
            raise RuntimeError(Thing(arguments["text"])) from error

    def give_nothing_usable(arguments, _context):
        return Thing(arguments["text"])

    for run in (tell, refuse, break_down, give_nothing_usable):
        harness.add(DeclaredTool(run.__name__, run=run))
    harness.add(DeclaredTool("misjudge", refusal=RuntimeError(harness.canaries.text)))
    for canary in harness.canaries:
        for name in ("tell", "refuse", "break_down", "give_nothing_usable", "misjudge"):
            await harness.call(name, text=f"it is {canary.text}")
    assert await harness.is_clean()
    assert harness.has_heard("tool_raised")
    assert harness.has_heard("tool_could_not_judge")


async def test_the_log_of_events(harness: CanaryHarness):
    """Also where a value in an event is none that JSON knows."""
    for canary in harness.canaries:
        text = canary.text
        changes = {text: [Thing(text), {text}, (text,), [{"x": text}], text.encode()]}
        event = SettingsChanged(who=text, version=1, changes=changes, document={})
        await harness.runtime.log.append(harness.session_id, event)
    assert await harness.is_clean()


def raised(text: str) -> ValueError:
    """With where it was."""
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


async def test_the_process_log(harness: CanaryHarness):
    """Whatever is handed to it: texts, structures, objects, exceptions and where they came from."""
    log = StructuredLogger("interlock.canary")
    for canary in harness.canaries:
        text = canary.text
        said = f"it is {text}"
        log.info(said, what=text, deep=[{"x": (text,)}], **{f"under {text}": 1})
        log.warning("thing", thing=Thing(text), several={text}, raw=text.encode())
        log.debug("long", thing=Thing("y" * 980 + " " + text))
        log.info("named", password="tulip-9-harbour-Lamp", error=InterlockError(text))
        log.error("broken", call_id=text, exc_info=raised(text))
    assert await harness.is_clean()
    assert not harness.has_heard("tulip-9-harbour-Lamp")
