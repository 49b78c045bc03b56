"""Names of files as people say them to the demo: with spaces, in Chinese, and without quotes."""

import pytest

from interlock.models.demo_intents import DemoIntentKind, parse_intent
from tests.unit.models.test_demo import called, said

MISSING = {"ok": False, "error_code": "EXECUTION_ERROR", "message": "there is no my notes.txt"}
READ = {"ok": True, "stdout": "milk\n"}


@pytest.mark.parametrize(
    ("text", "name", "path"),
    [
        ("read my notes.txt", "read_file", "my notes.txt"),
        ("Please open the file shopping list.md.", "read_file", "shopping list.md"),
        ("show me meeting notes 2026.md", "read_file", "meeting notes 2026.md"),
        ("what is in my notes.txt?", "read_file", "my notes.txt"),
        ("write hello to my notes.txt", "write_file", "my notes.txt"),
        ("append one more line to my notes.txt", "write_file", "my notes.txt"),
        ("replace hello with goodbye in my notes.txt", "read_file", "my notes.txt"),
        ("读取 my notes.txt", "read_file", "my notes.txt"),
        ("打开 会议记录.txt", "read_file", "会议记录.txt"),
        ("请读一下我的笔记.txt。", "read_file", "我的笔记.txt"),
        ("把 你好 写入 会议 记录.txt", "write_file", "会议 记录.txt"),
    ],
)
def test_a_name_that_is_plainly_all_the_rest_needs_no_quotes(text, name, path):
    tool, arguments = called(text)
    assert (tool, arguments["path"]) == (name, path)


@pytest.mark.parametrize(
    ("text", "shorter"),
    [
        ("read my notes.txt", "notes.txt"),
        ("打开我的笔记.txt", "笔记.txt"),
        ("读取 my notes.txt", "notes.txt"),
    ],
)
def test_where_there_is_no_such_file_the_shorter_name_is_tried_once(text, shorter):
    whole = called(text)[1]
    missing = ("read_file", whole, MISSING)
    assert called(text, missing) == ("read_file", {"path": shorter})
    assert "milk" in said(text, missing, ("read_file", {"path": shorter}, READ))
    neither = said(text, missing, ("read_file", {"path": shorter}, MISSING | {"message": "there is no x"}))
    assert "it did not work" in neither or "没有成功" in neither


def test_a_file_that_is_there_or_may_not_be_read_is_not_looked_for_again():
    denial = {
        "ok": False,
        "error_code": "MODE_DENIED",
        "message": "read_file is not allowed",
        "mode": "chat",
    }
    for result in (READ, denial):
        assert said("read my notes.txt", ("read_file", {"path": "my notes.txt"}, result))


def test_an_edit_of_a_file_with_the_shorter_name_goes_on_with_it():
    text = "replace hello with goodbye in my notes.txt"
    missing = ("read_file", {"path": "my notes.txt"}, MISSING)
    assert called(text, missing) == ("read_file", {"path": "notes.txt"})
    tool, arguments = called(text, missing, ("read_file", {"path": "notes.txt"}, READ))
    assert (tool, arguments["path"]) == ("edit_file", "notes.txt")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("read notes.txt please", "notes.txt"),
        ("read notes.txt and tell me about cats.md", "notes.txt"),
        ("show me what is in notes.txt", "notes.txt"),
    ],
)
def test_a_sentence_that_was_understood_before_means_the_same(text, path):
    assert called(text) == ("read_file", {"path": path})


@pytest.mark.parametrize(
    "text",
    [
        "read about the cats at example.com",
        "read the first lines of notes.txt",
        "show me how to make a.out",
    ],
)
def test_a_sentence_is_no_name(text):
    assert parse_intent(text).kind is DemoIntentKind.unknown
