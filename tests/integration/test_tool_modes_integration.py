"""The integration tests that the tool-modes test plan names (S1 5.3), as far as this stage goes.

Those that need a WebSocket come with the gateway.
"""

from interlock.config.modes import ToolMode
from interlock.gates.authority import AuthorityCache, Situation
from interlock.gates.gate import ToolCall
from interlock.gates.runner import CallContext, ToolRunner
from interlock.redaction.redactor import Redactor
from interlock.session.models import Role
from interlock.wiring import build_registry


def wired(store):
    registry = build_registry()
    return AuthorityCache(registry), ToolRunner(registry, store.log, Redactor())


async def test_chat_safe_allowed_tool_works(store):
    authorities, runner = wired(store)
    session = await store.sessions.create(opened_by="test")
    authority = authorities.get(Situation(mode=await store.sessions.get_mode(session.id)))
    result = await runner.call(ToolCall("c1", "current_time", "{}"), authority, CallContext(session.id))
    assert result.ok
    assert "UTC" in result.stdout


async def test_denial_persisted_to_transcript(store):
    """A denial is stored as the tool message that the model reads, under its call's id."""
    import orjson

    authorities, runner = wired(store)
    session = await store.sessions.create(opened_by="test")
    authority = authorities.get(Situation(mode=await store.sessions.get_mode(session.id)))
    call = ToolCall("call_7", "fs.read", '{"path": "a"}')
    result = await runner.call(call, authority, CallContext(session.id))
    await store.sessions.append_message(
        session.id, Role.tool, orjson.dumps(result.as_dict()).decode(), tool_call_id=call.call_id
    )
    rows = store.query("SELECT role, content, tool_call_id FROM messages WHERE session_id = ?", session.id)
    assert [(role, tool_call_id) for role, _, tool_call_id in rows] == [("tool", "call_7")]
    assert orjson.loads(rows[0][1])["error_code"] == "MODE_DENIED"


async def test_get_mode_reads_from_db(store):
    session = await store.sessions.create(opened_by="test")
    assert await store.sessions.get_mode(session.id) is ToolMode.chat_safe
    opened = store.manager(ToolMode.plan)
    store.execute("UPDATE sessions SET mode = 'plan' WHERE id = ?", session.id)
    assert await opened.get_mode(session.id) is ToolMode.plan
