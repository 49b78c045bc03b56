"""The demo: what it understands, what it calls, and how it tells what came of it."""

import asyncio
import re
import time

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.models.demo import MAX_LINES, DemoProvider, reply_to
from interlock.models.provider import (
    AssistantMessage,
    ModelRequest,
    RequestedCall,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from interlock.questions.widgets import read_widget
from tests.harness.case_tables import each_row
from tests.unit.models.asking import asked, streamed

DENIAL = {
    "ok": False,
    "error_code": "MODE_DENIED",
    "tool_name": "read_file",
    "mode": "chat_safe",
    "message": "read_file is not allowed in chat_safe mode",
    "next_action": (
        "This session is in chat_safe mode; read_file needs chat, plan or coding mode, which is "
        "not open on this deployment. Only the operator can open it; continue without it."
    ),
}


def request_of(text: str, *done: tuple[str, dict, object], tools: tuple[str, ...] = ()) -> ModelRequest:
    messages = [SystemMessage("You are Interlock."), UserMessage(text)]
    for number, (name, arguments, result) in enumerate(done):
        call = RequestedCall(f"c{number}", name, orjson.dumps(arguments).decode())
        content = result if isinstance(result, str) else orjson.dumps(result).decode()
        messages += [AssistantMessage("", [call]), ToolMessage(call.call_id, content)]
    functions = [{"type": "function", "function": {"name": name}} for name in tools]
    return ModelRequest(tuple(messages), orjson.dumps(functions))


def called(text: str, *done, tools: tuple[str, ...] = ()) -> tuple[str, dict]:
    reply = asked(DemoProvider(), request_of(text, *done, tools=tools))
    (call,) = reply.tool_calls
    return call.name, orjson.loads(call.arguments)


def said(text: str, *done) -> str:
    reply = asked(DemoProvider(), request_of(text, *done))
    assert reply.tool_calls == ()
    return reply.text


# -- what it calls -----------------------------------------------------------------------------------


@each_row(
    ("text", "name", "arguments"),
    [
        ("What time is it?", "current_time", {}),
        ("what's the time in Zurich", "current_time", {"timezone": "Europe/Zurich"}),
        ("current time in America/Sao_Paulo please", "current_time", {"timezone": "America/Sao_Paulo"}),
        ("现在几点？", "current_time", {}),
        ("上海现在几点", "current_time", {"timezone": "Asia/Shanghai"}),
        ("list files", "list_files", {}),
        ("ls", "list_files", {}),
        ("Please list the files in src", "list_files", {"path": "src"}),
        ("what files are there?", "list_files", {}),
        ("列出文件", "list_files", {}),
        ("这里有哪些文件？", "list_files", {}),
        ("列出 src/app 目录", "list_files", {"path": "src/app"}),
        ("read notes.txt", "read_file", {"path": "notes.txt"}),
        ("Read README", "read_file", {"path": "README"}),
        ("Can you show me the file src/greet.py?", "read_file", {"path": "src/greet.py"}),
        ('open "my notes.txt"', "read_file", {"path": "my notes.txt"}),
        ("what is in notes.txt?", "read_file", {"path": "notes.txt"}),
        ("cat ../secret.txt", "read_file", {"path": "../secret.txt"}),
        ("读取 notes.txt", "read_file", {"path": "notes.txt"}),
        ("请打开文件 src/a.py", "read_file", {"path": "src/a.py"}),
        ("notes.txt 里有什么？", "read_file", {"path": "notes.txt"}),
        ("list files in ..", "list_files", {"path": ".."}),
        ('Write "a, b" into l.txt', "write_file", {"path": "l.txt", "content": "a, b\n"}),
        ("read my notes.txt", "read_file", {"path": "my notes.txt"}),
        ("打开 会议记录.txt。", "read_file", {"path": "会议记录.txt"}),
        (
            "把 再见 追加到 hello.txt",
            "write_file",
            {"path": "hello.txt", "content": "再见\n", "mode": "append"},
        ),
        ("search for TODO", "search_files", {"pattern": "TODO"}),
        ("search for def x in src/a.py", "search_files", {"pattern": "def x", "path": "src/a.py"}),
        ("grep f(x)", "search_files", {"pattern": "f\\(x\\)"}),
        ("搜索 TODO", "search_files", {"pattern": "TODO"}),
        ("在 src/ 里搜索 TODO", "search_files", {"pattern": "TODO", "path": "src/"}),
        ("find files named *.py", "find_files", {"name_pattern": "*.py"}),
        ("查找名为 *.py 的文件", "find_files", {"name_pattern": "*.py"}),
        ("write hello to hello.txt", "write_file", {"path": "hello.txt", "content": "hello\n"}),
        ("把 你好 写入 hello.txt", "write_file", {"path": "hello.txt", "content": "你好\n"}),
        (
            "append one more line to notes.txt",
            "write_file",
            {"path": "notes.txt", "content": "one more line\n", "mode": "append"},
        ),
        ("run ls -l", "bash_readonly", {"cmd": "ls -l"}),
        ("run `git log --oneline`", "bash_readonly", {"cmd": "git log --oneline"}),
        ("$ echo hi", "bash_readonly", {"cmd": "echo hi"}),
        ("运行 ls -l", "bash_readonly", {"cmd": "ls -l"}),
        ("remember that we meet on Friday", "memory_append", {"content": "we meet on Friday"}),
        ("请记住：周五开会", "memory_append", {"content": "周五开会"}),
        ("what do you remember about the meeting?", "memory_search", {"query": "the meeting"}),
        ("你还记得开会吗？", "memory_search", {"query": "开会"}),
        (
            "replace hello with goodbye in hello.txt",
            "read_file",
            {"path": "hello.txt"},
        ),
        ("把 hello.txt 里的 你好 改成 再见", "read_file", {"path": "hello.txt"}),
    ],
)
def test_a_plain_request_becomes_a_call(text, name, arguments):
    assert called(text) == (name, arguments)


def test_a_command_goes_to_the_shell_that_may_write_where_there_is_one():
    assert called("run make", tools=("bash", "bash_readonly"))[0] == "bash"
    assert called("run make", tools=("bash_readonly",))[0] == "bash_readonly"


@pytest.mark.parametrize(
    ("text", "question"),
    [
        (
            "ask me to choose between tea, coffee and water",
            {
                "type": "selection",
                "message": "Which one?",
                "options": [{"value": "tea"}, {"value": "coffee"}, {"value": "water"}],
            },
        ),
        (
            "问我 要茶还是咖啡？",
            {
                "type": "selection",
                "message": "请选择：",
                "options": [{"value": "茶"}, {"value": "咖啡"}],
            },
        ),
        (
            "ask me whether to go on",
            {"type": "confirmation", "message": "to go on?"},
        ),
        ("Ask me a question.", {"type": "confirmation", "message": "Does the demo work for you?"}),
        ("问我", {"type": "confirmation", "message": "演示一切正常吗？"}),
    ],
)
def test_it_asks_what_it_is_told_to_ask_in_a_form_that_can_be_put(text, question):
    assert called(text) == ("ask_user", question)
    read_widget(question)


def test_an_edit_reads_first_and_then_replaces():
    text = "replace hello with goodbye in hello.txt"
    read = ("read_file", {"path": "hello.txt"}, {"ok": True, "stdout": "hello\n"})
    assert called(text, read) == (
        "edit_file",
        {"path": "hello.txt", "find": "hello", "replace": "goodbye"},
    )
    edited = ("edit_file", {"path": "hello.txt"}, {"ok": True, "stdout": "replaced 1 of 1 occurrence"})
    assert said(text, read, edited) == "Done: replaced 1 of 1 occurrence"


def test_an_edit_whose_reading_fails_is_told_and_not_tried():
    read = ("read_file", {"path": "hello.txt"}, DENIAL)
    assert "read_file is not allowed" in said("replace a with b in hello.txt", read)


@pytest.mark.parametrize("code", ["READ_REQUIRED", "STALE_READ"])
def test_a_file_that_is_there_already_is_read_before_it_is_replaced(code):
    text, arguments = "write new to a.txt", {"path": "a.txt", "content": "new\n"}
    refused = {"ok": False, "error_code": code, "message": "read it first"}
    first = ("write_file", arguments, refused)
    read = ("read_file", {"path": "a.txt"}, {"ok": True, "stdout": "old\n"})
    assert called(text, first) == ("read_file", {"path": "a.txt"})
    assert called(text, first, read) == ("write_file", arguments)
    assert "read it first" in said(text, first, read, first)


def test_each_request_of_a_conversation_stands_for_itself():
    earlier = request_of("read a.txt", ("read_file", {"path": "a.txt"}, {"ok": True, "stdout": "x"}))
    messages = (*earlier.messages, AssistantMessage("This is a.txt"), UserMessage("list files"))
    (call,) = asked(DemoProvider(), ModelRequest(messages)).tool_calls
    assert call.name == "list_files"
    assert call.call_id != asked(DemoProvider(), ModelRequest(messages[:2])).tool_calls[0].call_id


def test_it_is_a_pure_function_of_the_conversation():
    request = request_of("read a.txt")
    assert reply_to(request) == reply_to(request) == asked(DemoProvider(), request)


# -- what it says ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["hello", "help", "Who are you?", "what can you do?"])
def test_it_is_honest_about_what_it_is_and_says_how_to_connect_a_real_model(text):
    answer = said(text)
    assert answer.startswith("I am a small built-in demo, not a language model")
    assert "OPENAI_API_KEY" in answer
    assert "MODEL=openai" in answer


@pytest.mark.parametrize("text", ["你好", "帮助", "你能做什么？"])
def test_it_is_honest_in_chinese_too(text):
    answer = said(text)
    assert answer.startswith("我是一个内置的小演示，不是真正的语言模型")
    assert "OPENAI_API_KEY" in answer


def test_what_it_does_not_understand_it_says_and_what_it_can_do():
    assert said("Write me a poem about rain").startswith("I did not understand that.")
    assert '"what time is it in Zurich?"' in said("Write me a poem about rain")
    assert said("给我讲个笑话吧").startswith("这句话我没听懂")
    assert said("x" * 100_000).startswith("I did not understand that.")


def test_every_example_it_gives_is_one_it_understands():
    for answer, quotes in ((said("help"), r'"([^"]+)"'), (said("帮助"), "“([^”]+)”")):
        examples = re.findall(quotes, answer)
        assert len(examples) > 8
        assert all(asked(DemoProvider(), request_of(example)).tool_calls for example in examples)


def test_a_denial_is_explained_with_what_can_be_done():
    assert said("read a.txt", ("read_file", {"path": "a.txt"}, DENIAL)) == (
        "I tried, but Interlock denied it: read_file is not allowed in chat_safe mode "
        "(MODE_DENIED).\nWhat you can do: This session is in chat_safe mode; read_file needs "
        "chat, plan or coding mode, which is not open on this deployment. Only the operator can "
        "open it."
    )


def test_a_denial_is_explained_in_chinese():
    answer = said("读取 a.txt", ("read_file", {"path": "a.txt"}, DENIAL))
    assert answer.startswith("我试过了，但被 Interlock 拒绝：read_file is not allowed")
    assert "下一步：" in answer


def test_a_failure_is_told_as_one():
    failure = {
        "ok": False,
        "exit_code": 1,
        "stdout": "",
        "error_code": "EXECUTION_ERROR",
        "message": "there is no file a.txt",
        "next_action": "List the folder.",
    }
    assert said("read a.txt", ("read_file", {"path": "a.txt"}, failure)) == (
        "I tried, but it did not work: there is no file a.txt (EXECUTION_ERROR).\nWhat you can "
        "do: List the folder."
    )


@each_row(
    ("text", "tool", "result", "answer"),
    [
        ("what time is it", "current_time", {"stdout": "2026-11-03 UTC"}, "It is 2026-11-03 UTC."),
        ("几点", "current_time", {"stdout": "2026-11-03 UTC"}, "现在是 2026-11-03 UTC。"),
        ("list files", "list_files", {"stdout": "a\nb/\n"}, "Files:\n```\na\nb/\n```"),
        ("list files", "list_files", {"stdout": ""}, "It is empty."),
        ("read a.txt", "read_file", {"stdout": "x\n"}, "Content of a.txt:\n```\nx\n```"),
        ("read a.txt", "read_file", {"stdout": ""}, "a.txt is empty."),
        ("search for x", "search_files", {"stdout": ""}, "I found nothing."),
        ("搜索 x", "search_files", {"stdout": "a:1:x"}, "找到了：\n```\na:1:x\n```"),
        ("remember x", "memory_append", {"stdout": "created the note"}, "Done: created the note"),
        ("what do you remember about x", "memory_search", {"stdout": "1. x"}, "From memory:\n1. x"),
        (
            "run false",
            "bash_readonly",
            {"ok": False, "exit_code": 1, "stdout": "", "stderr": "no\n", "error_code": "EXECUTION_ERROR"},
            "I ran false; its exit code is 1.\n```\nno\n```",
        ),
        ("run true", "bash_readonly", {"exit_code": 0, "stdout": ""}, "I ran true; its exit code is 0."),
        ("ask me if", "ask_user", {"stdout": "Yes"}, "Thank you. You answered: Yes"),
        ("ask me if", "ask_user", {"stdout": '{"confirmed":true}'}, "Thank you. You answered: yes"),
        ("ask me if", "ask_user", {"stdout": '{"confirmed":false}'}, "Thank you. You answered: no"),
        (
            "问我 要茶还是咖啡",
            "ask_user",
            {"stdout": '{"choices":["茶","咖啡"]}'},
            "谢谢，你的回答是：茶, 咖啡",
        ),
        ("ask me if", "ask_user", {"stdout": '{"rating":5}'}, 'Thank you. You answered: {"rating":5}'),
    ],
)
def test_a_result_is_told_in_words(text, tool, result, answer):
    (call,) = asked(DemoProvider(), request_of(text)).tool_calls
    assert call.name == tool
    assert said(text, (tool, orjson.loads(call.arguments), {"ok": True} | result)) == answer


def test_a_long_result_is_told_in_part():
    output = "\n".join(f"line {number}" for number in range(100))
    answer = said("read a.txt", ("read_file", {"path": "a.txt"}, {"ok": True, "stdout": output}))
    assert f"line {MAX_LINES - 1}\n" in answer
    assert f"line {MAX_LINES}\n" not in answer
    assert answer.endswith(f"({100 - MAX_LINES} more lines)")


def test_nothing_in_a_file_can_close_the_fence_around_it():
    answer = said(
        "read a.md", ("read_file", {"path": "a.md"}, {"ok": True, "stdout": "```\nIgnore this\n```\n"})
    )
    assert answer == "Content of a.md:\n````\n```\nIgnore this\n```\n````"


def test_a_result_that_is_no_envelope_is_shown_as_it_is():
    assert "plain words" in said("read a.txt", ("read_file", {"path": "a.txt"}, "plain words"))


def test_an_answer_comes_in_small_pieces():
    pieces, _ = asyncio.run(streamed(DemoProvider(), request_of("help")))
    assert len(pieces) > 20


# -- whatever it is given ----------------------------------------------------------------------------


def test_without_any_question_it_introduces_itself_or_says_what_it_knows():
    assert "small built-in demo" in asked(DemoProvider(), ModelRequest((SystemMessage("x"),))).text


WORDS = st.sampled_from(
    [
        "read",
        "write",
        "replace",
        "in",
        "to",
        "with",
        "a.txt",
        "把",
        "里的",
        "改成",
        "ask me",
        "search",
        "list",
        " ",
        "“",
        '"',
    ]
)


@given(text=st.text(st.characters(codec="utf-8"), max_size=60) | st.lists(WORDS, max_size=12).map(" ".join))
def test_any_text_gets_a_call_or_an_answer(text):
    reply = reply_to(request_of(text))
    assert bool(reply.text) != bool(reply.tool_calls)


@given(
    result=st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(st.characters(codec="utf-8"), max_size=9),
        lambda inner: (
            st.dictionaries(
                st.sampled_from(
                    ["ok", "stdout", "error_code", "message", "next_action", "exit_code", "mode"]
                ),
                inner,
            )
            | st.lists(inner)
        ),
        max_leaves=6,
    )
)
def test_any_result_is_told_in_words(result):
    assert reply_to(request_of("read a.txt", ("read_file", {"path": "a.txt"}, result))).text


def test_long_sentences_are_understood_quickly():
    before = time.process_time()
    for words in ("with to in by ", "a.b/", "把 里的 ", '" ', "   "):
        assert reply_to(request_of(("replace " + words * 2000)[:4000]))
    assert time.process_time() - before < 2


def test_a_time_zone_is_known_by_its_city_or_its_name():
    assert called("what time is it in New York?")[1] == {"timezone": "America/New_York"}
    assert called("what time is it on Mars?")[1] == {}
