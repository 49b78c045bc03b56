"""The redactor knows the process's own secrets in every form they may travel in."""

import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.redaction.redactor import MARK, Redactor

SECRET = 'pa$$ "word"/+=ä\\'


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
        base64.b64encode(b"user:" + SECRET.encode()).decode(),
    ],
)
def test_a_known_value_is_taken_out_in_each_form(form):
    redacted = Redactor([SECRET]).text(f"before {form} after")
    assert MARK in redacted
    assert redacted.startswith("before ")
    assert redacted.endswith(" after")
    assert form not in redacted


@given(st.binary(max_size=5), st.binary(max_size=5))
def test_base64_of_a_text_that_contains_the_secret_does_not_pass(before, after):
    secret = "correct-horse-battery"
    encoded = base64.b64encode(before + secret.encode() + after).decode()
    redacted = Redactor([secret]).text(encoded)
    assert MARK in redacted


def test_structures_are_redacted_as_structures():
    redactor = Redactor(["topsecret"])
    value = {"a": ["x topsecret", ("topsecret", 5)], "topsecret": None}
    assert redactor.value(value) == {"a": [f"x {MARK}", (MARK, 5)], MARK: None}
    assert redactor.checked(value).changed
    assert not redactor.checked({"a": ("b", ["c"])}).changed


def test_a_secret_that_contains_another_is_taken_out_whole():
    assert Redactor(["secret1", "secret1-long"]).text("secret1-long") == MARK


def test_without_secrets_nothing_changes():
    assert Redactor([]).text("anything") == "anything"
    assert Redactor(["abc"]).text("abc") == "abc"


@pytest.mark.parametrize(
    ("before", "secret", "after"),
    [
        ("OPENAI_API_KEY=", "sk-" + "proj-A8s7Dk2Lq0Zx9Vb3Nm5T", "\n"),
        ("Authorization: Bearer ", "mF9" + "-4c7QkTz8PbL2xWv6", "\r\n"),
        ("GITHUB_TOKEN=", "q7TkCc" + "w6GJIHrjHrVysEHx", "\n"),
        ("export CLIENT_SECRET='", "EePsVI" + "mhZXY4HekS0tkTg", "'\n"),
        ("DB_PASSWORD: ", "kQ7" + "-yAGNjsPCe", "\n"),
        ('{"api_key": "', "Zk3Vq8" + "Lw1Xn5Tb7Rm9Py2", '"}'),
    ],
)
def test_the_least_that_must_be_found_is_replaced_by_the_mark(before, secret, after):
    """S3-6.3.5, S3-6.3.6: keys, bearer tokens, and values under names that end like a secret's."""
    assert MARK == "***REDACTED***"
    assert Redactor().text(f"a\n{before}{secret}{after}b") == f"a\n{before}{MARK}{after}b"


@pytest.mark.parametrize("tag", ["secret", "Ref", "env", "vault", "Sub"])
def test_a_password_that_begins_like_a_reference_is_none(tag):
    assert Redactor().text(f"password: !{tag}" + "Xk92m" + "Lq8Zp31") == f"password: {MARK}"
    assert Redactor().text(f"password: !{tag} DbPassword") == f"password: !{tag} DbPassword"
    assert Redactor().text(f'password: !{tag} "DbPassword"') == f'password: !{tag} "DbPassword"'
