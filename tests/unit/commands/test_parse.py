"""What is read of a shell text: its simple commands, where they run, and what is given to shells."""

import pytest

from interlock.commands.parse import FORK_BOMB, UNKNOWN, SimpleCommand, UnreadableCommand, read_commands
from tests.harness.case_tables import each_row

HOME, FOLDER = "/home/ann", "/home/ann/ws"


def read(text: str) -> list[SimpleCommand]:
    return read_commands(text, HOME, FOLDER)


@each_row(
    ("text", "words"),
    [
        ("a 'b c' \"d $e\" f\\ g", ("a", "b c", f"d {UNKNOWN}", "f g")),
        ("r'e'b\"oo\"t", ("reboot",)),
        ("$'\\x72\\155' $\"x\"", ("rm", "x")),
        (
            "a ~ ~/b ~root ~bob '~' $HOME ${HOME}/x ${HOME:-y} $PWD",
            (
                "a",
                HOME,
                f"{HOME}/b",
                "/root",
                "/home/bob",
                "~",
                HOME,
                f"{HOME}/x",
                HOME,
                FOLDER,
            ),
        ),
        ("a ${x:-/} $(b) `c` $((1))", ("a", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)),
        ("a /{usr,'b,c'}/{1,2}", ("a", "/usr/1", "/usr/2", "/b,c/1", "/b,c/2")),
        ("a '{x,y}'", ("a", "{x,y}")),
        ("X=1 Y=2 a", ("a",)),
        ("r\\\nm x", ("rm", "x")),
        ("> out a b", ("a", "b")),
        ("time { a b; }", ("a", "b")),
        ("{a,b}", ("a", "b")),
    ],
)
def test_words_are_read_as_a_shell_reads_them(text, words):
    assert words in [command.words for command in read(text)]


@each_row(
    ("text", "programs"),
    [
        ("a; b && c || d | e & f\ng", "abcdefg"),
        ("if a; then b; elif c; then d; else e; fi", "abcde"),
        ("for x in $(a); do b; done; while c; do d; done; until e; do f; done", "abcdef"),
        ("case $(a) in x) b;; *) c;; esac", "abc"),
        ("(a; { b; }); ! c; [[ -f $(d) ]] && e", "abcde"),
        ("f() { a; }; function g { b; }", "ab"),
        ("x=$(a) y=(1 $(b)); export z=`c`", "abc"),
        ('x $(a "$(b)") <(c) >(d) `e \\`f\\``', "xabcdef"),
        ("x <<E\n$(a) `b`\nE\nc", "xabc"),
        ("x <<'E'\n$(a)\nE\nb", "xb"),
        ("x <<E && a | b\ntext\nE\nc", "xabc"),
        ("x <<E <<F\n$(a)\nE\nb\nF\nc", "xac"),
        ("coproc a; coproc N { b; }", "ab"),
        ("x 3<> f; a", "xa"),
        ("x &&& a", "xa"),
        ('x "unclosed; a', "xa"),
        ("if x; then a", "xa"),
        ("# it's a comment\na", "a"),
        ('x "`b()` $(a)"', "xab"),
        ('x "${y:-`a`}" ${z:-`b`}', "xab"),
        ("sh <<E &\na\nE\nb", ("sh", "a", "b")),
        ("sh <<'E'; b\na\nE\nc", ("sh", "a", "b", "c")),
        ("if sh <<E; then b; fi\na\nE\nc", ("sh", "a", "b", "c")),
        ("yes a | sh", ("yes", "sh", "a")),
    ],
)
def test_every_command_is_found(text, programs):
    found = {command.name for command in read(text)}
    assert set(programs) <= found


@each_row(
    ("text", "directory"),
    [
        ("cd /; x", "/"),
        ("cd sub; x", f"{FOLDER}/sub"),
        ("cd; x", HOME),
        ("(cd /); x", FOLDER),
        ("cd / | x", FOLDER),
        ("cd $y; x", None),
        ("pushd /etc; popd; x", None),
        ("pushd /etc; x", "/etc"),
        ("env -C /etc x", "/etc"),
        ("eval 'cd /'; x", "/"),
        ("bash -c 'cd /'; x", FOLDER),
    ],
)
def test_it_is_known_where_a_command_runs(text, directory):
    assert next(command for command in read(text) if command.name == "x").directory == directory


@each_row(
    "text",
    [
        *("bash -c 'x y'", "sudo sh -ec 'x y'", "echo 'x y' | sh", "printf '%s\\n' 'x y' | bash -s"),
        *("bash <<< 'x y'", "bash <<E\nx y\nE", "cat <<E | sh\nx y\nE", "bash <(echo x y)"),
        *("source <(echo x y)", "bash < <(echo x y)", "eval x y", "trap 'x y' EXIT", "echo y | xargs x"),
        *(
            "echo y | xargs -I@ x @",
            "find y -exec x {} +",
            "watch 'x y'",
            "flock l -c 'x y'",
            "su -c 'x y'",
        ),
        *(
            "git rebase -x 'x y'",
            "tmux new -d 'x y'",
            "hyperfine 'a' 'x y'",
            "nohup nice -n 5 timeout 1 x y",
        ),
    ],
)
def test_what_a_program_starts_is_a_command_too(text):
    assert any(
        command.words[:1] == ("x",) and "y" in command.words[1] for command in read(text) if command.words
    )


def test_redirects_are_of_their_command_or_of_a_group():
    found = read("a > 1 2>> 2; { b; c; } &> 3; > 4; f() { d; } >> 5")
    assert [command.redirects for command in found] == [
        ((">", "1"), (">>", "2")),
        (("&>", "3"),),
        (),
        (),
        ((">", "4"),),
        (),
        ((">>", "5"),),
    ]


@each_row(
    ("text", "is_one"),
    [
        (":(){ :|:& };:", True),
        ("f() { f & }; f", True),
        ("f() { f; }", False),
        ("f() { g | g; }", False),
    ],
)
def test_a_function_that_starts_itself_is_known(text, is_one):
    assert any(command.words == (FORK_BOMB,) for command in read(text)) is is_one


@pytest.mark.parametrize("text", ["(" * 300 + "a" + ")" * 300, "eval " * 40 + "a"])
def test_what_is_nested_too_deep_is_not_read(text):
    with pytest.raises(UnreadableCommand):
        read(text)
