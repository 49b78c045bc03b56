"""What `chat.send` tells the model, by the kind of the session: persona, policy, questions (S4-1, EP)."""

import json

import pytest

from interlock.models import configured_models
from interlock.models.provider import SystemMessage
from tests.integration.agent.test_offers import Listening
from tests.integration.gateway.test_methods import new_session

PERSONA = "You are a careful reader."
AGENT = f"---\ndescription: Reads.\ntools.fs.max_read_bytes: 1000\n---\n{PERSONA}\n"
QUESTION = {"type": "confirmation", "message": "Shall I?"}


@pytest.fixture
async def reader(open_harness, tmp_path, monkeypatch):
    """A house with an agent in it, a client, and the model that everybody there talks with."""
    folder = tmp_path / "workspace" / "agents"
    folder.mkdir(parents=True)
    (folder / "reader.md").write_text(AGENT)
    model = Listening(f"call:ask_user {json.dumps(QUESTION)}", "msg:Thank you.")
    monkeypatch.setattr(configured_models, "create_provider", lambda _name, _settings: model)
    harness = await open_harness(SESSION_OPEN_MODES="chat")
    return model, await harness.connect()


async def asked_and_answered(client, session_id: str) -> None:
    """The model asks something first; the answer brings the task to its end."""
    before = len(client.frames)
    task = (await client.ask("chat.send", session_id=session_id, content="go"))["task"]
    asked = await client.until(lambda frame: frame["type"] == "ask_user", before)
    await client.until(lambda frame: frame["data"].get("kind") == "task.waiting", before)
    question = asked["data"]["question_id"]
    await client.ask("ask_user.answer", question_id=question, answer={"confirmed": True})
    await client.until_end(task["id"])


def prompt(model: Listening) -> str:
    system = model.asked[-1].messages[0]
    assert isinstance(system, SystemMessage)
    return system.text


async def test_a_chat_has_no_persona_but_the_policy_and_can_ask(reader):
    model, client = reader
    await asked_and_answered(client, await new_session(client, mode="chat"))
    text = prompt(model)
    assert PERSONA not in text
    assert "RUN_DIRECTIVE" not in text
    assert "NODE_BRIEF" not in text
    assert "fs.enabled: true" in text
    assert "fs.maxReadBytes: 524288" in text
    assert "- ask_user: " in text
    assert "read_file" in model.offered[-1]


async def test_an_agent_has_its_persona_and_the_stricter_of_both_policies(reader):
    model, client = reader
    session_id = await new_session(client, mode="chat", agent="reader")
    await asked_and_answered(client, session_id)
    assert PERSONA in prompt(model)
    assert "fs.maxReadBytes: 1000" in prompt(model)
    assert "RUN_DIRECTIVE" not in prompt(model)


async def test_what_is_saved_is_told_to_the_next_chat_and_the_next_agent(reader):
    model, client = reader
    for stored, with_agent in ((600, 600), (4000, 1000)):
        await client.ask("settings.update", patch={"tools": {"fs": {"max_read_bytes": stored}}})
        await asked_and_answered(client, await new_session(client, mode="chat"))
        assert f"fs.maxReadBytes: {stored}" in prompt(model)
        await asked_and_answered(client, await new_session(client, mode="chat", agent="reader"))
        assert f"fs.maxReadBytes: {with_agent}" in prompt(model)
