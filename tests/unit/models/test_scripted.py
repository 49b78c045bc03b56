"""Scripts, and the model that does what they say."""

import asyncio
import base64
import time

import pytest

from interlock.core.errors import ConfigurationError
from interlock.models.provider import (
    AssistantMessage,
    FinishReason,
    ModelFault,
    ModelRequest,
    RequestedCall,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from interlock.models.script import ScriptedCall, ScriptedTurn, parse_script, read_script
from interlock.models.scripted_provider import ScriptedProvider
from tests.harness.case_tables import each_row
from tests.unit.models.asking import QUESTION, asked, failed, streamed


def scripted(text: str) -> ScriptedProvider:
    return ScriptedProvider(parse_script(text, "the script"))


def after(*turns) -> ModelRequest:
    """A conversation in which the model has spoken so often."""
    messages = [SystemMessage("It is now."), UserMessage("Hello?")]
    for number, calls in enumerate(turns):
        messages.append(AssistantMessage("" if calls else "text", calls))
        messages += [ToolMessage(call.call_id, "result") for call in calls]
        messages += [] if calls else [UserMessage(f"and {number}?")]
    return ModelRequest(tuple(messages))


CALL = RequestedCall("c1", "a", "{}")


# -- the format --------------------------------------------------------------------------------------

TEXT = """
# what a dummy can do
ok
msg: Hello: there
msgb64:TGluZSAxCkxpbmUgMg==
sleep:250
err:rate_limited
err:rate_limited:2.5
call:read_file {"path": "a b"}
call:bash
call:bash {"cmd": oops
{"msg": "Look.", "sleep_ms": 5, "tool_calls": [{"name": "a", "arguments": {"x": 1}}, {"name": "b"}]}
{"tool_calls": [{"name": "c", "arguments": "bad"}]}
"""

TURNS = (
    ScriptedTurn("ok"),
    ScriptedTurn(" Hello: there"),
    ScriptedTurn("Line 1\nLine 2"),
    ScriptedTurn("ok", sleep_ms=250),
    ScriptedTurn(fault=ModelFault.rate_limited),
    ScriptedTurn(fault=ModelFault.rate_limited, retry_after_seconds=2.5),
    ScriptedTurn(calls=(ScriptedCall("read_file", '{"path": "a b"}'),)),
    ScriptedTurn(calls=(ScriptedCall("bash", "{}"),)),
    ScriptedTurn(calls=(ScriptedCall("bash", '{"cmd": oops'),)),
    ScriptedTurn(
        "Look.",
        (ScriptedCall("a", '{"x":1}'), ScriptedCall("b", "{}")),
        sleep_ms=5,
    ),
    ScriptedTurn(calls=(ScriptedCall("c", "bad"),)),
)


def test_a_script_is_a_text_with_an_item_a_line():
    assert parse_script(TEXT, "the script") == TURNS


def test_a_script_may_be_a_json_list_of_the_same_items():
    assert parse_script('["ok", "err:server", {"tool_calls": [{"name": "a"}]}]', "the script") == (
        ScriptedTurn("ok"),
        ScriptedTurn(fault=ModelFault.server),
        ScriptedTurn(calls=(ScriptedCall("a", "{}"),)),
    )


def test_a_script_comes_from_a_file_or_stands_in_the_setting_itself(tmp_path):
    (tmp_path / "script.txt").write_text("msg:你好\n")
    assert read_script(str(tmp_path / "script.txt")) == (ScriptedTurn("你好"),)
    assert read_script(' ["ok"]') == (ScriptedTurn("ok"),)


@each_row(
    ("text", "sentence"),
    [
        ("", "the script has no turn"),
        ("[]", "the script has no turn"),
        ("# only a comment", "the script has no turn"),
        (
            "ok\nokay",
            "the script, line 2: 'okay' is not one of ok, msg:…, msgb64:…, sleep:…, err:…, call:…",
        ),
        ("OK:", "the script, line 1: 'OK:' is not one of ok, msg:…, msgb64:…, sleep:…, err:…, call:…"),
        ("msg:", "the script, line 1: msg: needs a text"),
        (
            "msgb64:!",
            "the script, line 1: msgb64: needs UTF-8 text in base64 (Only base64 data is allowed)",
        ),
        ("sleep:1s", "the script, line 1: sleep: needs a number of milliseconds"),
        ("sleep:600001", "the script, line 1: it cannot sleep longer than 600000 milliseconds"),
        (
            "err:teapot",
            (
                "the script, line 1: err:teapot is not one of auth, not_found, invalid_request, too_long, "
                "quota, rate_limited, server, timeout, network, protocol, validation"
            ),
        ),
        ("err:server:soon", "the script, line 1: err:server:soon needs a number of seconds, at most 3600"),
        ("err:server:nan", "the script, line 1: err:server:nan needs a number of seconds, at most 3600"),
        ("call:", "the script, line 1: call: needs the name of a tool"),
        ("{}", "the script, line 1: it needs msg or tool_calls"),
        ('{"message": "x"}', "the script, line 1: 'message' is not one of msg, sleep_ms, tool_calls"),
        (
            '{"msg": 3}',
            "the script, line 1: msg must be a text, tool_calls a list, sleep_ms a whole number",
        ),
        ('{"tool_calls": [{"name": ""}]}', "the script, line 1: a tool call needs a name"),
        (
            '{"tool_calls": [{"name": "a", "args": {}}]}',
            "the script, line 1: a tool call must have only a name and arguments",
        ),
        ('["ok", 3]', "the script, item 2: it is neither a text nor an object"),
    ],
)
def test_a_wrong_script_is_refused_with_the_place_and_the_reason(text, sentence):
    with pytest.raises(ConfigurationError) as caught:
        parse_script(text, "the script")
    assert str(caught.value) == sentence


@pytest.mark.parametrize("text", ['["ok"', "{"])
def test_a_script_that_is_no_json_is_refused(text):
    with pytest.raises(ConfigurationError, match="is not"):
        parse_script(text, "the script")


def test_a_file_that_cannot_be_a_script_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        read_script(str(tmp_path / "missing"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="is not UTF-8 text"):
        read_script(str(tmp_path / "binary"))
    (tmp_path / "long").write_bytes(b"#" * 1_100_000)
    with pytest.raises(ConfigurationError, match="more than 1048576 bytes"):
        read_script(str(tmp_path / "long"))


# -- the model ---------------------------------------------------------------------------------------


def test_text_comes_in_pieces():
    pieces, reply = asyncio.run(streamed(scripted("msg:This is a text of some length.")))
    assert len(pieces) > 2
    assert reply.text == "This is a text of some length."
    assert reply.usage.input_tokens > 0


def test_calls_come_as_they_are_written():
    reply = asked(scripted('call:read_file {"path": oops'))
    (call,) = reply.tool_calls
    assert (call.name, call.arguments) == ("read_file", '{"path": oops')
    assert reply.finish_reason is FinishReason.tool_calls


def test_each_turn_of_a_conversation_has_its_item():
    provider = scripted("call:a\nmsg:two\nmsg:three")
    assert asked(provider, after()).tool_calls[0].name == "a"
    assert asked(provider, after([CALL])).text == "two"
    assert asked(provider, after([CALL], [])).text == "three"


def test_the_same_conversation_gets_the_same_answer_also_from_another_process():
    first, second = (scripted('call:a\ncall:b {"x": 1}') for _ in range(2))
    asked(first, after())
    assert asked(first, after([CALL])) == asked(second, after([CALL]))


def test_ids_of_calls_never_repeat_in_a_conversation():
    provider = scripted('{"tool_calls": [{"name": "a"}, {"name": "a"}]}\ncall:a')
    ids = [call.call_id for turn in (after(), after([CALL])) for call in asked(provider, turn).tool_calls]
    assert len(set(ids)) == 3


def test_a_fault_is_raised_once_and_the_next_try_has_the_next_item():
    provider = scripted("ok\nerr:rate_limited:2\nerr:server\nmsg:at last")
    error = failed(provider, after([]))
    assert (error.fault, error.retry_after_seconds) == (ModelFault.rate_limited, 2.0)
    assert str(error) == "the script says: err:rate_limited"
    assert failed(provider, after([])).fault is ModelFault.server
    assert asked(provider, after([])).text == "at last"
    assert asked(provider, after([])).text == "at last"


def test_conversations_do_not_use_up_each_others_faults():
    provider = scripted("err:server\nok")
    other = ModelRequest((UserMessage("Another."),))
    failed(provider)
    assert failed(provider, other).fault is ModelFault.server
    assert asked(provider).text == "ok"


def test_the_time_in_a_system_prompt_does_not_matter():
    provider = scripted("err:server\nok")
    failed(provider, ModelRequest((SystemMessage("It is 10:00."), UserMessage("x"))))
    assert asked(provider, ModelRequest((SystemMessage("It is 10:01."), UserMessage("x")))).text == "ok"


def test_a_script_that_has_ended_says_so():
    error = failed(scripted("ok\nok"), after([], []))
    assert (error.fault, str(error)) == (
        ModelFault.invalid_request,
        "the script ended after 2 turns",
    )


def test_a_sleep_takes_its_time():
    before = time.monotonic()
    assert asked(scripted("sleep:50")).text == "ok"
    assert time.monotonic() - before >= 0.05


async def test_a_sleep_can_be_cancelled():
    asking = asyncio.create_task(streamed(scripted("sleep:600000"), QUESTION))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


def test_the_example_in_base64_is_what_it_says():
    assert base64.b64decode("TGluZSAxCkxpbmUgMg==") == b"Line 1\nLine 2"
