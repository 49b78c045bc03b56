"""Values are redacted as structures: by the names in them, and otherwise left as the same object."""

from collections import OrderedDict

import pytest

from interlock.redaction.redactor import MARK, Redactor
from tests.harness.case_tables import each_row

TOKEN = "ghp_" + "fVn0XgcAOgCO9C9wVI2hp4hht6NqZNwPabqi"


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(["known-value-42", "902107773344"])


@each_row(
    "name",
    [
        *("password", "PASSWORD", "db_password", "userPassword", "api_key", "apiKey", "API-KEY", "db.pwd"),
        *("access_token", "refreshToken", "Authorization", "private_key", "passphrase", "client_secret"),
        *("aws_secret_access_key", "password2", "token_prod", "x-auth-token", "credentials", "smtp_pass"),
    ],
)
def test_what_stands_under_a_secret_name_is_masked_whole(redactor, name):
    assert redactor.value({name: "tiger lily 7"}) == {name: MARK}
    assert redactor.value([{"a": ({name: "tiger-7-lily"},)}]) == [{"a": ({name: MARK},)}]


@each_row(
    ("name", "item"),
    [
        *(("token_type", "bearer"), ("password", ""), ("password", None), ("password", True)),
        *(("password", "${DB_PASSWORD}"), ("password", "string"), ("password", MARK), ("password", [])),
        *(("max_tokens", 4096), ("tokens", 812), ("next_token", "D/vRIYNyhG79ugdta3f+8cRg9oSRo")),
        *(("primary_key", "identifier_column"), ("author", "Bob Smith"), ("compass", "north-west")),
        *(("monkey", "banana-split"), ("secretary", "Alice Jones"), ("passed", "7 of 9"), ("token", 12)),
    ],
)
def test_what_only_sounds_like_a_secret_stays(redactor, name, item):
    value = {name: item}
    assert redactor.value(value) is value
    assert not redactor.checked(value).changed


@pytest.mark.parametrize(
    ("name", "word"),
    [
        *(("password", "letmein"), ("POSTGRES_PASSWORD", "postgres"), ("jwt_secret", "mysecret")),
        *(("GITHUB_TOKEN", "letmein"), ("accessToken", "abcdefghij"), ("token", "abcdefghij")),
        *(
            ("api_key", "sunflower"),
            ("client_secret", "correct horse"),
            ("Authorization", "Bearer letmein"),
        ),
        *(("password", "abc"), ("password", "ab"), ("password", "123"), ("password", "config")),
        *(("db_password", "wretched"), ("db_password", "data"), ("DB_PASSWORD", "hashed")),
        *(("github_token", "abc"), ("jwt_secret", "settings"), ("secret", "abc")),
        *(("Authorization", "Bearer abc"), ("password", "Sunshine"), ("secret", "Sunflower")),
    ],
)
def test_a_plain_word_under_a_secret_name_is_masked(redactor, name, word):
    assert redactor.value({name: word}) == {name: MARK}


@pytest.mark.parametrize(
    ("name", "word"),
    [
        *(
            ("token", "Hello"),
            ("token", "identifier"),
            ("pad_token", "padding"),
            ("show_password", "always"),
        ),
        *(("existingSecret", "postgres-credentials"), ("api_key", "OPENAI_API_KEY"), ("auth", "basic")),
        *(("password", "hashed"), ("Authorization", "Bearer <token>"), ("password_policy", "strict")),
        *(("token", "x1"), ("token", "the"), ("pass", "abc"), ("access_token", "expired")),
        *(("password", "x"), ("secret", "value"), ("password", "notused"), ("password", "${X}")),
    ],
)
def test_a_word_that_is_no_value_stays(redactor, name, word):
    assert redactor.value({name: word}) == {name: word}


def test_lists_under_a_secret_name_are_masked_item_by_item(redactor):
    assert redactor.value({"passwords_old": ["a"]}) == {"passwords_old": ["a"]}
    assert redactor.value({"api_key": ["tiger-lily-7", "k3jd92mz"]}) == {"api_key": [MARK, MARK]}
    assert redactor.value({"password": ("tiger-lily-7",)}) == {"password": [MARK]}


def test_numbers_are_masked_under_a_password_or_where_they_are_known(redactor):
    assert redactor.value({"password": 48213377, "retries": 3}) == {"password": MARK, "retries": 3}
    assert redactor.value([902107773344, 902107773345, True]) == [MARK, 902107773345, True]
    assert redactor.checked({"n": 902107773344}).changed


def test_keys_and_texts_inside_are_looked_at(redactor):
    assert redactor.value({f"x {TOKEN}": 1}) == {f"x {MARK}": 1}
    assert redactor.value(["a", [f"see {TOKEN}"]]) == ["a", [f"see {MARK}"]]
    assert redactor.value({"a": "known-value-42"}) == {"a": MARK}
    assert redactor.value(OrderedDict(a=TOKEN)) == {"a": MARK}


@pytest.mark.parametrize(
    ("name", "value"), [("name", "value"), ("Name", "Value"), ("key", "value"), ("variable", "default")]
)
def test_a_field_that_another_field_names_is_masked(redactor, name, value):
    shown = redactor.value(
        [{name: "DB_PASSWORD", value: "tiger lily 7"}, {name: "HOME", value: "tiger lily"}]
    )
    assert shown == [{name: "DB_PASSWORD", value: MARK}, {name: "HOME", value: "tiger lily"}]
    assert redactor.value({value: "tiger-lily-7", name: "api_token"}) == {value: MARK, name: "api_token"}


@pytest.mark.parametrize(
    "value",
    [
        {"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
        {"name": "DB_PASSWORD", "value": "${DB_PASSWORD}"},
        {"name": "password", "type": "string", "description": "tiger lily 7"},
        {"name": "token_type", "value": "bearer-7-x"},
        {"name": ["password"], "value": "tiger lily 7"},
        ["--token-file", "/run/token"],
        ["--no-password", "tiger-lily-7"],
        ["--password", "--verbose-7"],
        ["--next-token", "D/vRIYNyhG79ugdta3f"],
        ["--password", 7, "tiger-lily-7"],
        ["password", "tiger-lily-7"],
    ],
)
def test_what_only_looks_like_such_a_pair_stays(redactor, value):
    assert redactor.value(value) == value
    assert not redactor.checked(value).changed


def test_the_argument_behind_a_flag_is_masked(redactor):
    assert redactor.value(["mysql", "--password", "tiger lily 7", "db"]) == [
        "mysql",
        "--password",
        MARK,
        "db",
    ]
    assert redactor.value({"args": ("-token", "k3jd92mz")}) == {"args": ("-token", MARK)}


def test_a_mark_does_not_shield_what_stands_beside_it(redactor):
    assert redactor.value({"password": f"tiger{MARK}lily7"}) == {"password": MARK}
    assert redactor.text(f'password = "tiger{MARK}lily7"') == f'password = "{MARK}"'
    assert redactor.text(f'password = "({MARK})"') == f'password = "({MARK})"'


def test_bytes_become_text(redactor):
    assert redactor.value(b"x " + TOKEN.encode()) == f"x {MARK}"
    assert redactor.value({"a": [b"\xff known-value-42"]}) == {"a": [f"\ufffd {MARK}"]}


def test_a_secret_that_two_texts_share_between_them_is_none(redactor):
    value = ["password=", "k3jd92mzxQ81"]
    assert redactor.value(value) == value


@pytest.mark.parametrize(
    "payload",
    [
        {"tool_name": "read_file", "arguments": {"path": "src/token.py"}, "duration_ms": 12.5},
        {"ok": True, "content": "def password(): ...", "lines": [1, 2, 3], "none": None},
        {"session_id": "s_2339e5ae02216083", "hash": "a" * 64, "tokens": {"prompt": 812, "completion": 97}},
        ["plain", ("tuple", 1), {"nested": [{"deeper": "text"}]}],
        [],
        {},
        7,
        None,
    ],
)
def test_an_ordinary_value_comes_back_as_the_same_object(redactor, payload):
    checked = redactor.checked(payload)
    assert checked.value is payload
    assert not checked.changed


def test_changed_says_whether_anything_was_taken_out(redactor):
    assert redactor.checked({"a": TOKEN}).changed
    assert redactor.checked(TOKEN).changed
    assert not redactor.checked("nothing here").changed
    value = {"password": "hunter#p6zm"}
    assert redactor.checked(value).changed
    assert value == {"password": "hunter#p6zm"}
