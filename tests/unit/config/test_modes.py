"""Modes: their names, the alias, and which of two is stricter."""

import pytest

from interlock.config.modes import ToolMode, parse_mode, stricter


def test_build_is_an_alias_of_coding():
    assert parse_mode("build") is ToolMode.coding


@pytest.mark.parametrize("value", ["", "Coding", "admin", "chat_safe,coding", " plan", "coding\n"])
def test_anything_else_is_refused_with_the_known_names(value):
    with pytest.raises(ValueError, match="chat_safe, chat, plan, coding, build"):
        parse_mode(value)


@pytest.mark.parametrize("mode", ToolMode)
def test_a_resumed_task_never_gets_more_than_either_mode(mode):
    assert stricter(mode, ToolMode.chat_safe) is ToolMode.chat_safe
    assert stricter(ToolMode.chat_safe, mode) is ToolMode.chat_safe
    assert stricter(mode, mode) is mode


def test_of_two_equally_strict_modes_the_present_one_holds():
    assert stricter(ToolMode.chat, ToolMode.plan) is ToolMode.plan
    assert stricter(ToolMode.coding, ToolMode.plan) is ToolMode.plan
