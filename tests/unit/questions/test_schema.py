"""The schema of `ask_user`, which models see."""

import json
from pathlib import Path

import jsonschema_rs
import pytest

from interlock.tools.builtins.ask_user import AskUserTool
from tests.unit.questions.widget_cases import CASES

PINNED = Path(__file__).parents[2] / "data" / "ask_user_schema.json"


def test_the_schema_of_ask_user_is_the_pinned_one():
    assert dict(AskUserTool(None).parameters) == json.loads(PINNED.read_text())


@pytest.mark.parametrize("kind", CASES)
def test_every_kind_of_question_fits_the_schema(kind):
    jsonschema_rs.validator_for(dict(AskUserTool(None).parameters)).validate(CASES[kind][0])
