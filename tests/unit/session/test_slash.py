"""What begins with a slash: a command of the one table, something that is told to be none, or a message."""

import pytest

from interlock.channels.telegram.commands import COMMANDS
from interlock.channels.telegram.updates import KNOWN_COMMANDS
from interlock.infra.errors import BadUsage
from interlock.session.slash import SLASH_COMMANDS, Place, Written, known_in, read_slash


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ("/help", Written("help", "")),
        ("  /Tools ", Written("tools", "")),
        ("/mode plan", Written("mode", "plan")),
        ("/mode\n plan ", Written("mode", "plan")),
        ("/model", Written("model", "")),
    ],
)
def test_a_command_is_read_with_what_stands_behind_it(words, written):
    assert read_slash(words, Place.page) == written


@pytest.mark.parametrize(
    "words", ["hello", "/etc/hosts", "read /mode", "/etc/hosts: what is in it?", "1/2"]
)
def test_a_message_is_none_even_where_it_begins_with_a_path(words):
    assert read_slash(words, Place.terminal) is None


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
        read_slash(words, Place.terminal)
    assert str(refused.value) == told


def test_a_place_knows_its_own_commands_alone():
    assert "quit" in known_in(Place.terminal)
    assert "quit" not in known_in(Place.page)
    with pytest.raises(BadUsage):
        read_slash("/cancel", Place.terminal)
    for place in Place:
        assert {"help", "mode", "tools", "why", "undo", "new"} <= known_in(place).keys()


def test_telegram_lists_and_reads_what_the_table_has():
    assert {name: each.about for name, each in known_in(Place.telegram).items()} == COMMANDS
    assert known_in(Place.telegram).keys() == KNOWN_COMMANDS - {"start"}
    # Telegram's own limit.
    assert all(3 <= len(each.about) <= 256 for each in SLASH_COMMANDS)
