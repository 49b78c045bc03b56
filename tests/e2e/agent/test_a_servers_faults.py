"""What a model's server does wrong, over a real socket: asked again where that may help, or another model,
else one clear sentence (DESIGN 9)."""

import asyncio
import json

import pytest

from tests.harness.model_answers import (
    DONE,
    Delay,
    DropConnection,
    HangForever,
    ModelAnswer,
    called,
    chunk,
    event,
    json_answer,
    refused,
    said,
    streamed,
    text_chunks,
)
from tests.harness.model_server import KEY

SHOWN = ModelAnswer(tuple(event(each) for each in text_chunks(["The answer ", "begins "])))
NOT_SHOWN = ModelAnswer((event(text_chunks([])[0]),))


async def asked_again(harness, server, *faults: ModelAnswer, **variables: str) -> list[dict]:
    """What was scheduled before the answer came."""
    harness.variables |= variables
    server.add(*faults, said("The answer."))
    ran = await harness.execute("hello", mode="chat_safe")
    assert ran.stdout == "The answer.\n"
    assert len(server.asked) == len(faults) + 1
    harness.assert_sound()
    assert len(harness.messages()) == 2
    scheduled = [told.fields for told in harness.events("retry.scheduled")]
    assert [each["attempt"] for each in scheduled] == list(range(1, len(faults) + 1))
    for each in scheduled:
        assert f"({each['error']}; retrying in {each['delay_seconds']:g} s)" in ran.stderr
    return scheduled


async def failed(harness, server, fault: ModelAnswer, *, times: int = 1, **variables: str) -> str:
    """The sentence that the person reads, once it was asked so often."""
    harness.variables |= variables
    server.add(*[fault] * times)
    ran = await harness.execute("hello", "--quiet", mode="chat_safe", expect=1)
    assert len(server.asked) == times
    assert ran.stdout == ""
    (sentence,) = ran.stderr.splitlines()
    assert KEY not in sentence
    assert harness.only("agent.failed")["error"] == sentence
    finished = harness.only("task.finished")
    assert (finished["status"], finished["reason"]) == ("failed", sentence)
    harness.assert_sound()
    return sentence


# -- what may pass --


async def test_500_then_success(harness, server):
    first, second = await asked_again(harness, server, refused(500, "overloaded"), refused(503))
    assert (first["error_class"], second["error_class"]) == ("server", "server")
    assert "(500)" in first["error"]
    assert "overloaded" in first["error"]
    assert (first["delay_seconds"], second["delay_seconds"]) == (0.05, 0.1)


async def test_429_waits_as_long_as_the_server_asks(harness, server):
    (waited,) = await asked_again(harness, server, refused(429, "slow down", Retry_After="1.5"))
    assert (waited["error_class"], waited["delay_seconds"]) == ("rate_limited", 1.5)
    (turn,) = harness.events("turn.completed")
    assert turn.fields["latency_ms"] >= 1500


async def test_429_that_asks_for_longer_than_allowed_is_not_waited_for(harness, server):
    sentence = await failed(
        harness, server, refused(429, "tomorrow", Retry_After="3600"), CONTROL_MAX_RETRY_AFTER_SECONDS="60"
    )
    assert "reports too many requests (429)" in sentence
    assert harness.only("retry.exhausted")["attempts"] == 1


@pytest.mark.parametrize(
    ("fault", "error_class"),
    [
        (NOT_SHOWN.then(DropConnection()), "network"),
        (ModelAnswer(first=(DropConnection(),)), "network"),
        (ModelAnswer((event(b"{broken"),)), "protocol"),
        (ModelAnswer((event(b'["no object"]'),)), "protocol"),
        (streamed([{"choices": []}], finish=None, usage=False), "protocol"),
        (ModelAnswer((DONE,)), "protocol"),
        (ModelAnswer((event({"error": {"message": "out of memory"}}),)), "server"),
    ],
    ids=["cut", "cut-at-once", "not-json", "no-object", "empty-choices", "nothing", "error-in-stream"],
)
async def test_an_answer_that_breaks_before_its_first_word_is_asked_for_again(
    harness, server, fault, error_class
):
    (scheduled,) = await asked_again(harness, server, fault)
    assert scheduled["error_class"] == error_class


async def test_a_hang_ends_after_the_time_a_server_may_be_silent(harness, server):
    (scheduled,) = await asked_again(
        harness, server, ModelAnswer(first=(HangForever(),)), OPENAI_IDLE_SECONDS="0.5"
    )
    assert scheduled["error_class"] == "timeout"
    assert scheduled["error"] == "the model sent nothing for 0.5 seconds"


async def test_what_keeps_failing_is_given_up_with_its_last_reason(harness, server):
    sentence = await failed(harness, server, refused(500, "down"), times=3, CONTROL_MAX_RETRIES="2")
    assert sentence == "the model's server failed (500); the model's server says: down"
    exhausted = harness.only("retry.exhausted")
    assert (exhausted["attempts"], exhausted["error_class"]) == (3, "server")


# -- what was shown already --


@pytest.mark.parametrize(
    ("rest", "error_class", "sentence"),
    [
        (DropConnection(), "network", "the connection to the model's server was lost"),
        (DONE[:0], "network", "the model's response was cut off"),
        (event(b"{broken"), "protocol", "a chunk of the response is not JSON"),
        (HangForever(), "timeout", "the model sent nothing for 0.5 seconds"),
    ],
    ids=["cut", "ended", "not-json", "hang"],
)
async def test_an_answer_that_breaks_after_words_were_shown_is_discarded_and_asked_for_again(
    harness, server, rest, error_class, sentence
):
    fault = SHOWN.then(rest) if rest else SHOWN
    (scheduled,) = await asked_again(harness, server, fault, OPENAI_IDLE_SECONDS="0.5")
    assert scheduled["error_class"] == error_class
    assert sentence in scheduled["error"]
    assert harness.only("turn.discarded")["error"] == scheduled["error"]


async def test_one_that_always_breaks_fails_and_is_not_stored(harness, server):
    fault = SHOWN.then(DropConnection())
    await failed(harness, server, fault, times=3, CONTROL_MAX_RETRIES="2")
    assert harness.only("retry.exhausted")["attempts"] == 3
    assert len(harness.events("turn.discarded")) == 3
    assert [message["role"] for message in harness.messages()] == ["user"]


async def test_a_broken_answer_after_calls_leaves_a_transcript_to_go_on_with(harness, server):
    server.add(called(("current_time", {})), SHOWN.then(DropConnection()), said("Now it works."))
    harness.variables["CONTROL_MAX_RETRIES"] = "0"
    await harness.execute("what time is it", mode="chat_safe", expect=1)
    harness.assert_sound()
    ran = await harness.run("exec", "and now?", "--session", harness.session)
    assert ran.stdout == "Now it works.\n"
    roles = [message["role"] for message in server.asked[-1].messages]
    assert roles == ["system", "user", "assistant", "tool", "user"]
    harness.assert_sound()


async def test_the_next_model_of_a_chain_answers_in_the_place_of_one_that_fails(harness, server):
    harness.variables |= {"MODELS": "openai:double-1 > openai:double-2"}
    server.add(refused(401, "wrong key"), said("The answer."))
    ran = await harness.execute("hello", mode="chat_safe")
    assert ran.stdout == "The answer.\n"
    assert "continuing with the model 'double-2'" in ran.stderr
    assert [request.document["model"] for request in server.asked] == ["double-1", "double-2"]
    assert harness.only("model.fallback")["to_model"] == "double-2"
    assert harness.only("turn.completed")["model"] == "double-2"
    harness.assert_sound()


async def test_the_same_model_at_another_provider_has_a_circuit_of_its_own(harness, server):
    pytest.importorskip("pydantic_ai", reason="the extra `providers` is not installed")
    from tests.integration.models.test_pydantic_ai import KEY as OTHER_KEY
    from tests.integration.models.test_pydantic_ai import WORDS, Provider

    server.add(refused(500, "down"))
    async with Provider(200, "text/event-stream", WORDS) as address:
        harness.variables |= {
            "MODEL": "openai:double-1",
            "MODELS": "openai:double-1 > anthropic:double-1",
            "ANTHROPIC_API_KEY": OTHER_KEY,
            "ANTHROPIC_BASE_URL": address,
            "CONTROL_CIRCUIT_FAILURES": "1",
        }
        ran = await harness.execute("hello", mode="chat_safe")
    assert ran.stdout == "Let me look.\n"
    assert harness.only("circuit.opened")["model"] == "double-1"
    # It is not waited for.
    assert harness.events("retry.scheduled") == []
    fallback = harness.only("model.fallback")
    assert (fallback["from_model"], fallback["to_model"]) == ("double-1", "double-1")
    assert harness.only("turn.completed")["model"] == "double-1"


async def test_an_answer_without_an_end_ends_with_the_time_of_its_task(harness, server):
    """A model that says a word now and then is never silent for long."""
    drips = [step for number in range(300) for step in (event(chunk({"content": "on "})), Delay(0.1))]
    server.add(ModelAnswer(tuple(drips), ends=False))
    harness.variables["CONTROL_MAX_WALL_SECONDS"] = "2"
    ran = await harness.execute("hello", mode="chat_safe", expect=4)
    assert harness.only("control.limit_reached")["limit"] == "max_wall_seconds"
    assert "the limit is 2 seconds" in ran.last_lines[0]
    await asyncio.wait_for(server.hung_up.wait(), 30)
    harness.assert_sound()


# -- what never passes --


@pytest.mark.parametrize(
    ("fault", "error_class", "sentence"),
    [
        (refused(401, f"wrong key {KEY}"), "auth", "the model's server rejects the key (401)"),
        (refused(404, "no model"), "not_found", "there is no model 'double-1' at http://127.0.0.1:"),
        (refused(400, "bad"), "invalid_request", "the model's server rejects the request (400)"),
        (
            json_answer({"error": {"message": "maximum context length is 10", "code": "x"}}, 400),
            "too_long",
            "the conversation is too long for the model (400)",
        ),
        (refused(402, "pay"), "quota", "has no credit left (402)"),
    ],
    ids=["401", "404", "400", "too-long", "402"],
)
async def test_what_cannot_pass_ends_the_task_at_once(harness, server, fault, error_class, sentence):
    assert sentence in await failed(harness, server, fault)
    assert harness.only("agent.failed")["error_class"] == error_class
    assert not harness.events("retry.scheduled", "retry.exhausted")


async def test_a_server_that_is_not_there_is_named(harness):
    harness.variables |= {
        "MODEL": "openai:double-1",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "CONTROL_MAX_RETRIES": "1",
    }
    ran = await harness.execute("hello", "--json", mode="chat_safe", expect=1)
    *_, last = [json.loads(line) for line in ran.stdout.splitlines()]
    assert last["reason"] == "the model's server at http://127.0.0.1:9/v1 cannot be reached"
    assert (last["status"], last["exit_code"]) == ("failed", 1)
