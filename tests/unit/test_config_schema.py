"""The configuration tests that the tool-modes test plan names (S1 5.2)."""

import pytest
from pydantic import ValidationError

from interlock.config.session import SessionSettings
from interlock.config.settings import Settings


def test_session_default_mode_default_value():
    assert SessionSettings().default_mode == "chat_safe"


def test_session_default_mode_chat_safe_accepted(monkeypatch):
    monkeypatch.setenv("SESSION_DEFAULT_MODE", "chat_safe")
    assert SessionSettings().default_mode == "chat_safe"


@pytest.mark.parametrize("value", ["coding", "chat", "plan", "build", "", "admin"])
def test_session_default_mode_non_chat_safe_rejected(monkeypatch, value):
    monkeypatch.setenv("SESSION_DEFAULT_MODE", value)
    with pytest.raises(ValidationError) as raised:
        SessionSettings()
    text = str(raised.value)
    assert "SESSION_DEFAULT_MODE" in text
    assert f"'{value}'" in text
    assert "chat_safe" in text
    assert "ADR 0025" in text


def test_root_settings_includes_session():
    settings = Settings()
    assert isinstance(settings.session, SessionSettings)
    assert settings.session.default_mode == "chat_safe"
    assert {"database", "openai", "gateway", "session", "workspace_dir"} <= set(Settings.model_fields)
