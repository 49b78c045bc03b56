"""The settings of the Telegram bot: nobody by default, and every mistake named."""

import pytest

from interlock.config.settings import load_settings
from interlock.config.settings_report import describe_settings, secrets_of
from interlock.core.errors import ConfigurationError

TOKEN = "123456789:AAF-double_double_double_double_dou"


def test_nobody_is_allowed_by_default():
    given = load_settings().telegram
    assert (given.allowed_users, given.allowed_chats, given.operators) == (frozenset(),) * 3
    assert given.bot_token is None


def test_the_token_is_a_secret_that_the_redactor_knows(monkeypatch, tmp_path):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN_FILE", str(tmp_path / "token"))
    settings = load_settings()
    assert TOKEN in secrets_of(settings)
    assert TOKEN not in str(describe_settings(settings))


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("TELEGRAM_BOT_TOKEN", "12345", "is not a bot token"),
        ("TELEGRAM_BOT_TOKEN", f"{TOKEN} x", "is not a bot token"),
        ("TELEGRAM_ALLOWED_USERS", "ada", "'ada' is not an id"),
        ("TELEGRAM_ALLOWED_USERS", "-5", "a person's id is a positive number"),
        ("TELEGRAM_ALLOWED_CHATS", "5", "a group's id is a negative number"),
        ("TELEGRAM_OPERATORS", "7", "7 is not in TELEGRAM_ALLOWED_USERS"),
        ("TELEGRAM_BASE_URL", "http://bot.example.test", "plain http exposes the token"),
        ("TELEGRAM_BASE_URL", "https://ada:pass@bot.example.test", "contains a user name or a password"),
        ("TELEGRAM_PENDING_SECONDS", "-1", "TELEGRAM_PENDING_SECONDS"),
    ],
)
def test_a_mistake_is_named(monkeypatch, name, value, sentence):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as caught:
        load_settings()
    assert sentence in str(caught.value)
    assert name in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_ids_and_a_server_of_ones_own(monkeypatch):
    monkeypatch.setenv("TELEGRAM_ALLOWED_USERS", "5, 6")
    monkeypatch.setenv("TELEGRAM_OPERATORS", "6")
    monkeypatch.setenv("TELEGRAM_ALLOWED_CHATS", "-1001")
    monkeypatch.setenv("TELEGRAM_BASE_URL", "http://127.0.0.1:8081/")
    given = load_settings().telegram
    assert given.allowed_users == {5, 6}
    assert given.operators == {6}
    assert given.allowed_chats == {-1001}
    assert given.base_url == "http://127.0.0.1:8081"
