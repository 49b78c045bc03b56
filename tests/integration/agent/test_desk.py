"""What the command line tells of a conversation before its first word: the agent's model and its tools."""

import pytest

from interlock.cli.conversing import opened_desk, wanted
from tests.integration.agent.office import script
from tests.integration.agent.test_office import agent_file


@pytest.fixture
def surroundings(tmp_path, monkeypatch):
    (tmp_path / "root").mkdir()
    own = script(tmp_path, "msg:mine")
    agent_file(tmp_path, more=f"model: {own}\ntools.denied_tools: read_file\n")
    for name, value in {
        "INTERLOCK_STATE_DIR": tmp_path / "state",
        "WORKSPACE_DIR": tmp_path / "workspace",
        "MODEL": "demo",
        "MODELS": own,
    }.items():
        monkeypatch.setenv(name, str(value))
    return own, (tmp_path / "root",)


async def test_an_agent_s_model_and_tools_are_told_before_the_first_word(surroundings):
    own, roots = surroundings
    given = wanted("coding", roots, None, "reader", None)
    async with opened_desk(given, lambda _event: None, someone_can_answer=True) as desk:
        assert await desk.model() == own
        before = await desk.authority()
        assert "read_file" not in before.exposed
        await desk.talk("hello")
        assert await desk.model() == own
        assert (await desk.authority()).exposed == before.exposed


async def test_a_person_s_choice_comes_before_the_agent_s(surroundings):
    _, roots = surroundings
    given = wanted("coding", roots, None, "reader", "demo")
    async with opened_desk(given, lambda _event: None, someone_can_answer=True) as desk:
        assert await desk.model() == "demo"
        await desk.talk("hello")
        assert await desk.model() == "demo"
