"""The default mode is for new sessions and touches no other; the start hands it on (S0-5.5)."""

import inspect

from interlock.config.modes import ToolMode
from interlock.config.settings import Settings
from interlock.redaction.redactor import Redactor
from interlock.sessions.manager import SessionManager
from interlock.wiring import open_runtime


def test_a_manager_must_be_told_the_default_and_the_open_modes():
    parameters = inspect.signature(SessionManager).parameters
    for name in ("default_mode", "open_modes"):
        assert parameters[name].default is inspect.Parameter.empty


async def test_the_default_is_for_new_sessions_alone(store):
    """Only in a test is it another than `chat_safe`: the settings refuse any other."""
    old = await store.sessions.create(opened_by="test")
    everything = frozenset(ToolMode)
    planning = SessionManager(
        store.database, store.log, Redactor(), default_mode=ToolMode.plan, open_modes=everything
    )
    new = await planning.create(opened_by="test")
    assert (old.stored_mode, new.stored_mode) == ("chat_safe", "plan")
    assert await planning.get_mode(old.id) is ToolMode.chat_safe
    assert await store.manager(*ToolMode).get_mode(new.id) is ToolMode.plan


async def test_the_start_hands_the_setting_to_the_sessions(tmp_path, monkeypatch):
    monkeypatch.setenv("INTERLOCK_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("WORKSPACE_DIR", str(tmp_path / "workspace"))
    monkeypatch.setenv("SESSION_OPEN_MODES", "plan")
    settings = Settings()
    group = settings.session.model_copy(update={"default_mode": "plan"})
    for given, expected in (
        (settings, "chat_safe"),
        (settings.model_copy(update={"session": group}), "plan"),
    ):
        runtime = open_runtime(given)
        assert (await runtime.sessions.create(opened_by="test")).stored_mode == expected
        await runtime.close()
