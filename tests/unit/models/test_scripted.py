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
from interlock.models.script import Script, parse_script, read_script
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
    {"msg": "ok"},
    {"msg": " Hello: there"},
    {"msg": "Line 1\nLine 2"},
    {"msg": "ok", "sleep_ms": 250},
    {"err": "rate_limited"},
    {"err": "rate_limited", "retry_after_seconds": 2.5},
    {"tool_calls": [{"name": "read_file", "arguments": '{"path": "a b"}'}]},
    {"tool_calls": [{"name": "bash"}]},
    {"tool_calls": [{"name": "bash", "arguments": '{"cmd": oops'}]},
    {
        "msg": "Look.",
        "sleep_ms": 5,
        "tool_calls": [{"name": "a", "arguments": '{"x":1}'}, {"name": "b"}],
    },
    {"tool_calls": [{"name": "c", "arguments": "bad"}]},
)


def turns(script: Script) -> tuple[dict, ...]:
    """What the items say, in the keys of an item that is an object."""
    return tuple(turn.model_dump(by_alias=True, exclude_defaults=True) for turn in script)


def test_a_script_is_a_text_with_an_item_a_line():
    assert turns(parse_script(TEXT, "the script")) == TURNS


def test_a_script_may_be_a_json_list_of_the_same_items():
    script = parse_script('["ok", "err:server", {"tool_calls": [{"name": "a"}]}]', "the script")
    assert turns(script) == ({"msg": "ok"}, {"err": "server"}, {"tool_calls": [{"name": "a"}]})


def test_a_script_comes_from_a_file_or_stands_in_the_setting_itself(tmp_path):
    (tmp_path / "script.txt").write_text("msg:你好\n")
    assert turns(read_script(str(tmp_path / "script.txt"))) == ({"msg": "你好"},)
    assert turns(read_script(' ["ok"]')) == ({"msg": "ok"},)


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
        ("msg:", "the script, line 1: it needs msg, tool_calls or err"),
        ("msgb64:!", "the script, line 1: Only base64 data is allowed"),
        ("sleep:1s", "the script, line 1: sleep_ms must be a whole number"),
        ("sleep:600001", "the script, line 1: sleep_ms must be at most 600000"),
        (
            "err:teapot",
            (
                "the script, line 1: err must be one of 'auth', 'not_found', 'invalid_request', "
                "'too_long', 'quota', 'rate_limited', 'server', 'timeout', 'network', 'protocol' "
                "or 'validation'"
            ),
        ),
        ("err:server:soon", "the script, line 1: retry_after_seconds must be a number"),
        ("err:server:nan", "the script, line 1: retry_after_seconds must be at most 3600"),
        ("call:", "the script, line 1: tool_calls[0].name must not be empty"),
        ("{}", "the script, line 1: it needs msg, tool_calls or err"),
        ('{"message": "x"}', "the script, line 1: message is not a known key"),
        ('{"msg": 3}', "the script, line 1: msg must be a text"),
        ('{"tool_calls": [{"name": ""}]}', "the script, line 1: tool_calls[0].name must not be empty"),
        (
            '{"tool_calls": [{"name": "a", "args": {}}]}',
            "the script, line 1: tool_calls[0].args is not a known key",
        ),
        (
            '["ok", 3]',
            "the script, item 2: '3' is not one of ok, msg:…, msgb64:…, sleep:…, err:…, call:…",
        ),
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
