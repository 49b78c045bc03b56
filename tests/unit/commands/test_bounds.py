"""Hostile texts: processor time, memory and size are bounded, as measured in processor time."""

import resource
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from interlock.commands import parse_process
from interlock.commands.judge import CommandJudge
from interlock.commands.parse import MAX_BYTES, MAX_HERE, UnreadableCommand
from interlock.commands.parse_process import CPU_SECONDS, parse
from tests.harness.case_tables import daily

JUDGE = CommandJudge(("git push",), (".git/hooks", ".bashrc"), "/home/ann")
# The slowest of them needs 0.2 s here.
MOST_IN_PROCESS = 1.0

UNITS = [
    *(
        "a=(",
        "x=(a ",
        "a+=(",
        "<<A ",
        "<<A <<B ",
        "a <<A\n",
        "<<-E\n",
        "<<E\nE\n",
        "<<<",
        "sh <<A\n",
        "a<<A|",
    ),
    *(
        "${a",
        "${a/",
        "${a:-",
        "${!",
        "${#",
        '"${',
        "$((",
        "((",
        "((a=",
        "$((1+",
        "$[",
        "a[",
        "$(",
        "`",
        "\\`",
    ),
    *(
        '"$(',
        "(",
        "{ ",
        "<(",
        ">(",
        "[[ ",
        "[[ a =~ ",
        "case x in ",
        "case a in a) ",
        "a)",
        "if ",
        "do ",
        "!",
    ),
    *(
        "for x in ",
        "select x in ",
        "while ",
        "f() {",
        "function f ",
        "coproc ",
        "x(){ x;};",
        "a|b&",
        "&& ",
        "| ",
    ),
    *(
        "; ",
        "#\n",
        "\\\n",
        "'",
        '"',
        "$'",
        "{a,",
        "{a,b}",
        "{{",
        "}",
        "@(",
        "!(",
        "+(a|",
        "\0",
        "\x80",
        "\ue000",
    ),
    *(
        "\ud800",
        "é",
        "~",
        "$a",
        "> a",
        "<>",
        "2>",
        "rm *",
        "rm /*/",
        "rm ~/",
        "rm -rf x;",
        "/../",
        "kill -9 ",
    ),
    *(
        "chmod u",
        "-a ",
        "sudo ",
        "env ",
        "eval ",
        "xargs ",
        "timeout 1 ",
        "find . -exec ",
        "find / ",
        "echo a | ",
    ),
    *(
        'sh -c "',
        "sh -c a\\ ",
        "cat|",
        "cd ..;",
        "pushd a;",
        "parallel {} ::: ",
        "echo {a,b}{c,d} ",
        "git -c ",
    ),
]


@pytest.mark.parametrize("unit", UNITS)
def test_a_short_text_is_judged_soon_whatever_it_is(unit):
    text = unit * (MAX_HERE // len(unit.encode("utf-8", "replace")))
    began = time.process_time()
    JUDGE.judge(text, "/home/ann/ws")
    assert time.process_time() - began < MOST_IN_PROCESS


@pytest.mark.parametrize("unit", daily(UNITS, 6))
def test_a_long_text_is_read_by_a_process_that_the_kernel_ends(unit, monkeypatch):
    # The kernel counts processor time; the wall clock is for machines that have none to give.
    monkeypatch.setattr(parse_process, "WALL_SECONDS", 60)
    text = unit * (MAX_BYTES // len(unit.encode("utf-8", "replace")))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with suppress(UnreadableCommand):
        parse(text, "/home/ann", "/home/ann/ws")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # Half a second, and the start of the interpreter.
    assert spent < CPU_SECONDS + 0.7


def test_a_script_of_many_lines_is_read():
    text = "cat > x.py <<'EOF'\n" + "print('hello, world')\n" * 4000 + "EOF\npython3 x.py && rm -rf /etc"
    assert MAX_HERE < len(text) < MAX_BYTES
    refused = JUDGE.judge(text, "/home/ann/ws")
    assert refused is not None
    assert refused.rule == "remove-system-folder"
    assert JUDGE.judge(text.removesuffix(" && rm -rf /etc"), "/home/ann/ws") is None


@pytest.mark.parametrize(
    "text", ["x" * (MAX_BYTES + 1), "é" * (MAX_BYTES // 2 + 1), "a=(" * (MAX_BYTES // 3)]
)
def test_what_cannot_be_read_is_refused_with_the_advice_to_write_a_script(text):
    refused = JUDGE.judge(text, "/home/ann/ws")
    assert refused is not None
    assert refused.rule == "unreadable"
    assert "write_file" in refused.next_action


def test_both_ways_to_read_give_the_same_commands(monkeypatch):
    text = "cd / && X=1 sudo rm -rf 'a b' > out; f() { f | f; }; sh <<< 'reboot'; é $x \udcff"
    here = parse(text, "/home/ann", "/home/ann/ws")
    monkeypatch.setattr(parse_process, "MAX_HERE", 0)
    assert parse(text, "/home/ann", "/home/ann/ws") == here


def test_the_process_opens_nothing_and_has_little_memory():
    script = (
        "import json, os, resource, socket, sys\n"
        "from interlock.commands import parse_process\n"
        "def read(text, home, directory):\n"
        "    if text == 'true': return []\n"
        "    failed = []\n"
        "    for attempt in (lambda: os.open('/etc/passwd', 0), socket.socket, lambda: bytearray(2**30)):\n"
        "        try: attempt()\n"
        "        except (OSError, MemoryError) as error: failed.append(type(error).__name__)\n"
        "    raise parse_process.UnreadableCommand(' '.join(failed))\n"
        "parse_process.read_commands = read\n"
        "parse_process.main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], input=b'["x", "/", "/"]', capture_output=True, check=True
    )
    said = ended.stdout.decode().strip('"').split()
    assert said[:2] == ["OSError", "OSError"]
    assert said[-1] == "MemoryError"


LONG = "# " + "x" * MAX_HERE + "\nls"


def is_unreadable() -> bool:
    refused = JUDGE.judge(LONG, "/home/ann/ws")
    return refused is not None and refused.rule == "unreadable"


def test_a_process_that_hangs_is_ended_and_the_command_refused(monkeypatch):
    assert not is_unreadable()
    monkeypatch.setattr(parse_process, "WALL_SECONDS", 0.2)
    monkeypatch.setattr(parse_process, "_CODE", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)")
    assert is_unreadable()


@pytest.mark.parametrize(
    "code", ["import os; os.kill(os.getpid(), 9)", "raise MemoryError", "print(1); exit(3)"]
)
def test_a_process_that_is_killed_or_fails_refuses_the_command(code, monkeypatch):
    monkeypatch.setattr(parse_process, "_CODE", code)
    assert is_unreadable()


def test_a_command_is_refused_if_no_process_can_be_started(monkeypatch):
    monkeypatch.setattr(parse_process.sys, "executable", "/nonexistent/python")
    assert is_unreadable()
