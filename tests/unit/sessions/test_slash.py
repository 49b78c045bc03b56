"""What begins with a slash: a command of the one table, something that is told to be none, or a message."""

import pytest

from interlock.channels.telegram.commands import COMMANDS
from interlock.channels.telegram.updates import KNOWN_COMMANDS
from interlock.core.errors import BadUsage
from interlock.sessions.slash_commands import (
    SLASH_COMMANDS,
    ParsedSlashCommand,
    Surface,
    parse_slash_command,
    slash_commands_for,
)


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ("/help", ParsedSlashCommand("help", "")),
        ("  /Tools ", ParsedSlashCommand("tools", "")),
        ("/mode plan", ParsedSlashCommand("mode", "plan")),
        ("/mode\n plan ", ParsedSlashCommand("mode", "plan")),
        ("/model", ParsedSlashCommand("model", "")),
    ],
)
def test_a_command_is_read_with_what_stands_behind_it(words, written):
    assert parse_slash_command(words, Surface.page) == written


@pytest.mark.parametrize(
    "words", ["hello", "/etc/hosts", "read /mode", "/etc/hosts: what is in it?", "1/2"]
)
def test_a_message_is_none_even_where_it_begins_with_a_path(words):
    assert parse_slash_command(words, Surface.terminal) is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("/nonsense", "there is no command /nonsense; type /help for a list"),
        ("/tool", "there is no command /tool; did you mean /tools? type /help for a list"),
        ("/", "there is no command /; type /help for a list"),
        ("/undo the last one", "/undo takes no argument"),
        ("/var is full", "there is no command /var; type /help for a list"),
    ],
)
def test_what_is_no_command_is_told_and_never_a_message(words, told):
    with pytest.raises(BadUsage) as refused:
        parse_slash_command(words, Surface.terminal)
    assert str(refused.value) == told


def test_a_place_knows_its_own_commands_alone():
    assert "quit" in slash_commands_for(Surface.terminal)
    assert "quit" not in slash_commands_for(Surface.page)
    with pytest.raises(BadUsage):
        parse_slash_command("/cancel", Surface.terminal)
    for place in Surface:
        assert {"help", "mode", "tools", "why", "undo", "new"} <= slash_commands_for(place).keys()


def test_telegram_lists_and_reads_what_the_table_has():
    assert {name: each.about for name, each in slash_commands_for(Surface.telegram).items()} == COMMANDS
    assert slash_commands_for(Surface.telegram).keys() == KNOWN_COMMANDS - {"start"}
    # Telegram's own limit.
    assert all(3 <= len(each.about) <= 256 for each in SLASH_COMMANDS)
