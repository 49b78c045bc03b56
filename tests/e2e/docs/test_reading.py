"""The reader of pages is strict: a page that lies is found out."""

import pytest

from tests.e2e.docs.blocks import Command, blocks_of
from tests.e2e.docs.doubles import free_port
from tests.e2e.docs.matching import Names, difference
from tests.e2e.docs.reader import Reader

PAGE = """Words.

<!-- exits: 3 -->
```console
$ first \\
    --long
one
…
$ chat
you> hello
hi
```

- In a list:

  ```sh
  second
  ```

```json
{}
```

<!-- not run: because -->

```sh
third
```
"""


def test_blocks_are_found_with_their_notes(tmp_path):
    (tmp_path / "page.md").write_text(PAGE)
    first, second, third = blocks_of(tmp_path / "page.md", tmp_path)
    assert first.notes == {"exits": "3"}
    assert first.commands == [
        Command("first \\\n    --long", ("one", "…")),
        Command("chat", ("hi",), ("hello",)),
    ]
    assert (second.language, second.lines, second.notes) == ("sh", ("second",), {})
    assert third.notes == {"not run": "because"}
    assert third.place == "page.md:26"


@pytest.mark.parametrize(
    ("shown", "printed", "fits"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a", "b"], ["a", "c"], False),
        (["a"], ["a", "b"], False),
        (["a", "b"], ["a"], False),
        (["a", "…"], ["a", "b", "c"], True),
        (["…", "c"], ["a", "b", "c"], True),
        (["…", "d"], ["a", "b", "c"], False),
        (["a … c"], ["a lot of c"], True),
        (["x  y"], ["x      y"], True),
        (["  x"], ["x"], False),
        (["at 2026-11-16 01:02:03"], ["at 2031-01-01 00:00:00"], True),
        (["at 2026-11-16 01:02:03"], ["at noon"], False),
        (["s_0123456789abcdef"], ["s_fedcba9876543210"], True),
        (["s_0123456789abcdef"], ["t_fedcba9876543210"], True),
        (["s_0123456789abcdef"], ["nothing"], False),
        # The same name stands for the same thing.
        (["s_0123456789abcdef", "s_0123456789abcdef"], ["s_fedcba9876543210"] * 2, True),
        (
            ["s_0123456789abcdef", "s_0123456789abcdef"],
            ["s_fedcba9876543210", "s_aaaaaaaaaaaaaaa1"],
            False,
        ),
        (["latency_ms=1.5 ok=true"], ["latency_ms=20 ok=true"], True),
        (["latency_ms=1.5 ok=true"], ["latency_ms=20 ok=false"], False),
    ],
)
def test_what_is_shown_must_have_been_printed(shown, printed, fits):
    assert (difference(shown, printed, Names()) is None) is fits


def test_a_name_of_the_page_is_the_real_one_in_later_commands():
    names = Names()
    assert difference(["made s_0123456789abcdef"], ["made s_fedcba9876543210"], names) is None
    assert names.in_command("undo s_0123456789abcdef") == "undo s_fedcba9876543210"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```console\n$ echo one\ntwo\n```\n", "the page shows"),
        ("```sh\nfalse\ntrue\n```\n", "it ended with 1"),
        ("```console\n$ false\n$ echo two\ntwo\n```\n", "it ended with 1"),
        ("<!-- exits: 3 -->\n```sh\ntrue\n```\n", "it ended with 0"),
        ("<!-- stays running -->\n```console\n$ echo over\nunder\n```\n", "it ended"),
    ],
)
def test_a_page_that_lies_is_found_out(tmp_path, text, said):
    (tmp_path / "page.md").write_text(text)
    with Reader(tmp_path / "ada", free_port(), {}, {}) as reader:
        (block,) = blocks_of(tmp_path / "page.md", tmp_path)
        with pytest.raises(AssertionError, match=said):
            reader.follow(block)


def test_the_shell_stays_the_same_from_block_to_block(tmp_path):
    text = "```sh\nexport HERE=there\ncd ..\n```\n\n```console\n$ echo $HERE $PWD\nthere /home/ada\n```\n"
    text += "\n```console\n$ false\n$ echo $?\n1\n```\n"
    text += "\n```sh\necho $HERE > left\n```\n"
    (tmp_path / "page.md").write_text(text)
    with Reader(tmp_path / "ada", free_port(), {}, {}) as reader:
        for block in blocks_of(tmp_path / "page.md", tmp_path):
            reader.follow(block)
    assert (tmp_path / "ada" / "left").read_text() == "there\n"
