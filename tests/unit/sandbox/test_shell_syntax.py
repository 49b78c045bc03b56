"""The parser of shell commands: the same words as bash, never anything but a tree or `CannotParse`."""

import os
import re
import shutil
import subprocess
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.commands.extraction import extract_commands
from interlock.commands.parse import MAX_LENGTH, parse, read
from interlock.commands.syntax_tree import (
    CannotParse,
    CompoundCommand,
    ForLoop,
    FunctionDefinition,
    SimpleCommand,
)
from interlock.commands.word_parser import MAX_DEPTH, PATTERN, UNKNOWN
from tests.harness.case_tables import each_row

HOME, FOLDER = "/home/ann", "/home/ann/ws"
X, P = UNKNOWN, PATTERN


def words(text: str) -> list[tuple[str, ...]]:
    seen = extract_commands(text, HOME, FOLDER)
    assert seen.unread == []
    return [command.words for command in seen.commands if command.words]


def redirects(text: str) -> list[tuple[str, str]]:
    return [each for command in extract_commands(text, HOME, FOLDER).commands for each in command.redirects]


@each_row(
    ("text", "expected"),
    [
        ("a b  c", ["a", "b", "c"]),
        ("a 'b c' \"d e\"", ["a", "b c", "d e"]),
        (r"a\ b c\d", ["a b", "cd"]),
        (r"""'a\b' "a\b" "a\"b" "\$x" """, [r"a\b", r"a\b", 'a"b', "$x"]),
        (r"$'a\x41\102\n\'' $'\u00e9'", ["aAB\n'", "é"]),
        ('$"a b"', ["a b"]),
        ("a''b \"\" ''", ["ab", "", ""]),
        ("a\\\nb c", ["ab", "c"]),
        ("a #b\n", ["a"]),
        ("a#b", ["a#b"]),
        ("a $x b", ["a", X, "b"]),
        ('a "$x$y"c', ["a", f"{X}{X}c"]),
        ("~ ~/x ~root ~bob/y a~", [HOME, f"{HOME}/x", "/root", "/home/bob/y", "a~"]),
        ("$HOME \"${HOME}/x\" '$HOME' $PWD", [HOME, f"{HOME}/x", "$HOME", FOLDER]),
        ("rm${IFS}-rf$IFS/", ["rm", "-rf", "/"]),
        ("r$@m $1 x", ["rm", "x"]),
        ("a* 'b*' [c]", [f"a{P}*", "b*", f"{P}[c]"]),
        ("{a,b}c x{1..3} {a} {a,'b c'}", ["ac", "bc", "x1", "x2", "x3", "{a}", "a", "b c"]),
        ("a{b,{c,d}}e {,x}", ["abe", "ace", "ade", "x"]),
        ('"{a,b}" {a\\,b}', ["{a,b}", "{a,b}"]),
        ("{03..1} {a..c..2}", ["03", "02", "01", "a", "c"]),
        ("a $((1+2)) $[1]", ["a", X, X]),
        ("${x:-a b} ${x:-'a b'} ${HOME:0:1}", ["a", "b", "a b", "/"]),
        ("a >b 2>&1 c", ["a", "c"]),
        ("a <(b) c", ["a", f"/dev/fd/{X}", "c"]),
    ],
)
def test_a_command_becomes_words(text, expected):
    assert words(text)[-1] == tuple(expected)


@each_row(
    ("text", "programs"),
    [
        ("a; b && c || d & e\nf", "abcdef"),
        ("a | b |& c", "abc"),
        ("(a; b) && { c; }", "abc"),
        ("if a; then b; elif c; then d; else e; fi", "abcde"),
        ("while a; do b; done; until c; do d; done", "abcd"),
        ("for i in x y; do a; done; for ((;;)); do b; done", "ab"),
        ("case x in (p|q) a;; r) b;& *) c; esac; d", "abcd"),
        ("! a; time -p b; coproc c", "abc"),
        ("f() { a; }; function g { b; }; function h() ( c )", "abc"),
        ("[[ a < b && $(a) =~ ^(x|y)$ ]] && b", "ab"),
        ("((1 < 2)) && a", "a"),
        ("a\n\n# b\n  c", "ac"),
        ("x=$(a) b", "ab"),
        ("echo `a \\`b\\`` | c", ["b", "a", "echo", "c"]),
        ('"$(a "$(b ")")")"', ["b", "a", X]),
        ("a <<E\n$(b)\nE\nc", "bac"),
        ("a <<'E'\n$(b)\nE\nc", "ac"),
        ("a <<-E\n\tb\n\tE\nc", "ac"),
        ("a <<E1; b <<E2\nx\nE1\ny\nE2\nc", "abc"),
        ("$( (a); (b) )", ["a", "b", X]),
        ("$((a); (b))", ["a", "b", X]),
        ("echo ${x:-$(a)} ${y[$(b)]} $((1 + $(c)))", ["a", "b", "c", "echo"]),
        ("z[$(a)]=1; y=($(b))", "ab"),
    ],
)
def test_every_command_of_a_script_is_found(text, programs):
    assert [found[0] for found in words(text)] == list(programs)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a > b", [(">", "b")]),
        ("a 2>>b <c", [(">>", "b"), ("<", "c")]),
        ("a >|b &>c &>>d <>e", [(">|", "b"), ("&>", "c"), ("&>>", "d"), ("<>", "e")]),
        ("{ a; } > b", [(">", "b")]),
        ("while a; do b; done >c", [(">", "c")]),
        ("> a", [(">", "a")]),
        ("a {fd}>b", [(">", "b")]),
        ("a '>' b \\> c", []),
        ("((a > b)); [[ a > b ]]; echo $((a > b))", []),
        ("f() { a; } > b", [(">", "b")]),
    ],
)
def test_redirections_are_found(text, expected):
    assert redirects(text) == expected


@each_row(
    ("text", "expected"),
    [
        ("x=rm; $x -rf", ("rm", "-rf")),
        ("x='rm -rf'; $x a", ("rm", "-rf", "a")),
        ('x="rm -rf"; "$x" a', ("rm -rf", "a")),
        ("x=r; x+=m; $x", ("rm",)),
        ("export x=a; $x", ("a",)),
        ("x=(a b); ${x[@]} ${x[1]}", ("a", "b", "b")),
        ("(x=a); $x", (X,)),
        ("read x; $x", (X,)),
        ("x=a; read x; $x", (X,)),
        ("for i in a b; do c $i; done", ("c", "a", "b")),
        ("set -- a b; $2 $1", ("b", "a")),
        ("f() { $1 x; }; f a", ("a", "x")),
        ("x=a; ${!y} ${x^^}", (X, "A")),
        ("a=b; ${a:+c} ${a:=d}", ("c", "b")),
        ("$(printf '%s\\n' a) b", ("a", "b")),
        ("$(echo -e 'a\\x62') c", ("ab", "c")),
        ("$(which rm) x", ("rm", "x")),
        ("$(curl x) y", (X, "y")),
    ],
)
def test_what_is_known_is_followed(text, expected):
    assert words(text)[-1] == expected


def test_the_folder_follows_cd():
    found = extract_commands("a; cd src; b; (cd /; c); d; cd $x; e", HOME, FOLDER).commands
    folders = {command.name: command.folder for command in found}
    assert folders["a"] == FOLDER
    assert folders["b"] == folders["d"] == f"{FOLDER}/src"
    assert folders["c"] == "/"
    assert folders["e"] == UNKNOWN


def test_the_tree_keeps_its_kinds():
    kinds = [type(item.commands[0]) for item in parse("a; (b); for x in y; do z; done; f() { a; }")]
    assert kinds == [SimpleCommand, CompoundCommand, ForLoop, FunctionDefinition]


@each_row(
    "text",
    [
        *(
            "'a",
            '"a',
            "$'a",
            "`a",
            "$(a",
            "${a",
            "${}",
            "(a",
            "{ a",
            "a &&",
            "a &&& b",
            "a | | b",
            ";; a",
            ")",
        ),
        *(
            "if a; then b",
            "if a; fi b",
            "for; do a; done",
            "case a in b",
            "[[ a",
            "done",
            "a ( b",
            "a > ",
            "a; }",
        ),
        *("x=(a", "f() ", "$((1", "a |", "<(a", "for ((i=0", "case a in b c) d;; esac", "while a; b; done"),
        "x" * (MAX_LENGTH + 1),
        "$(" * (MAX_DEPTH + 1) + ")" * (MAX_DEPTH + 1),
        "(" * 5000,
        "{ " * 5000,
        "if " * 5000,
        "f()" * 5000,
        "${a:-" * 5000,
        '"$(' * 5000,
        "$((" * 5000,
    ],
    ids=lambda text: text[:12],
)
def test_what_is_no_command_says_so(text):
    with pytest.raises(CannotParse) as refused:
        parse(text)
    assert str(refused.value)


# Pieces that matter to a shell are drawn far more often than chance would have it.
PIECES = st.sampled_from(
    [
        *"'\"\\`$(){}[]<>|&;#*?~=!%:,.-+/ \n\ta1",
        *(
            "$(",
            "${",
            "$((",
            "))",
            "<<",
            "<<E",
            "\nE\n",
            "<<<",
            "$'",
            '$"',
            "&&",
            "||",
            ";;",
            ">(",
            "<(",
            "[[",
            "]]",
        ),
        *(
            "if ",
            "then ",
            "fi",
            "for x in ",
            "do ",
            "done",
            "case x in ",
            "esac",
            "while ",
            "f() ",
            "x=",
            "x+=(",
            "{a,b}",
        ),
        *(
            "rm -rf ",
            "bash -c ",
            "eval ",
            "xargs ",
            "find / -exec ",
            "sudo ",
            "cd ",
            "echo ",
            "\\\n",
            "\0",
            "\1",
            "é",
        ),
    ]
)
SCRIPTS = st.lists(PIECES, max_size=40).map("".join)


@settings(max_examples=400)
@given(SCRIPTS)
def test_any_text_gives_a_tree_or_says_why_not(text):
    with suppress(CannotParse):
        parse(text)


@settings(max_examples=300)
@given(SCRIPTS)
def test_walking_any_text_never_raises(text):
    extract_commands(text, HOME, FOLDER)


@settings(max_examples=200)
@given(st.lists(PIECES, min_size=1, max_size=6).map("".join))
def test_reading_takes_time_in_proportion_to_the_text(piece):
    """Counted in characters read: twice the text is at most about twice the work."""

    def work(times: int) -> int | None:
        try:
            return read(piece * times)[1]
        except CannotParse:
            return None

    once, twice = work(40), work(80)
    if once is not None and twice is not None:
        assert twice <= 2.2 * once + 200


def test_the_budget_ends_what_must_be_tried_in_two_ways():
    # Each of these opens arithmetic that turns out to be a command, inside the one before.
    with pytest.raises(CannotParse):
        parse("$((a;" * 25 + ") )" * 25)


# -- the same words as bash --

PLAIN = st.text(alphabet="ab-/.:=é ", min_size=0, max_size=4)
QUOTED = st.one_of(
    st.text(alphabet='ab*$\\"`# ;|&<>(){}~!', max_size=5).map(lambda text: f"'{text}'"),
    st.text(alphabet="ab*'# ;|&<>(){}~", max_size=5).map(lambda text: f'"{text}"'),
    st.sampled_from([r"\ ", r"\'", r"\"", r"\\", r"\$", r"\;", r"\{", '"\\a"', '"\\$"', '"\\\\"', '"\\`"']),
    st.sampled_from(
        [r"$'\x41\t'", r"$'\101'", r"$'\''", r"$'\\'", r"$'a\qb'", r"$'é'", r"$'\cB'", "$'\\n'"]
    ),
    st.sampled_from(["{a,b}", "{a,{b,c}}", "{1..3}", "{a}", "{a,", "{,a}", "{a..c}", "{3..1}", "{01..3}"]),
    st.sampled_from(["$HOME", '"$HOME"', "${HOME}", "~/", "~/a", "${NONE:-a b}", "\\\n"]),
    st.sampled_from(
        ['"$v"', "$v", '"${v}"', "${v:0:2}", '"${l[@]}"', "${l[@]}", "${l[1]}", "$(echo a  b)", "`echo c`"]
    ),
)
LINES = st.lists(st.one_of(PLAIN, QUOTED), min_size=1, max_size=6).map("".join)
BATCH = 40


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash to compare with")
@settings(max_examples=12, deadline=None)
@given(st.lists(LINES, min_size=BATCH, max_size=BATCH))
def test_words_are_split_as_bash_splits_them(lines):
    """Nothing but `printf` and `echo` is run, in a folder where no pattern finds a file."""
    prepared = "v='a  b c'; l=(x 'y z' w)"
    readable = [line for line in lines if _is_readable(f"{prepared}; printf '%s\\0' {line}")]
    script = prepared + "\n" + "\n".join(f"printf '<%s>\\0' {line}\nprintf '|\\0'" for line in readable)
    shell = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", script],
        cwd="/proc/self/task",
        env={"HOME": HOME, "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        capture_output=True,
        check=True,
    )
    groups = shell.stdout.decode("utf-8", "surrogateescape").split("|\0")[:-1]
    assert len(groups) == len(readable)
    for line, group in zip(readable, groups, strict=True):
        ours = words(f"{prepared}\nprintf x {line}")[-1][2:]
        if UNKNOWN in "".join(ours):
            continue
        printed = [f"<{word.replace(PATTERN, '')}>" for word in ours] or ["<>"]
        assert group.split("\0")[:-1] == printed, line


def _is_readable(line: str) -> bool:
    try:
        tree = parse(line)
    except CannotParse:
        return False
    # One line, one command: what opens a second one is another test's matter. In bash, braces come before
    # variables, so that `$a{b,c}` is `$ab $ac`; nobody writes that, and it is not followed.
    return (
        len(tree) == 3 and "\n" not in line.replace("\\\n", "") and not re.search(r"\$\w+(\\\n)*\{", line)
    )
