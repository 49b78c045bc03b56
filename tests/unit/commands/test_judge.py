"""The judge of commands: its rules, the operator's denylist, protected names, and what it cannot read."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.commands.judge import SHOWN, CommandJudge, RefusedCommand
from interlock.commands.rules import Decision, builtin_rules
from interlock.config.protected_names import PROTECTED_NAMES
from tests.harness.case_tables import each_row

HOME, FOLDER = "/home/ann", "/home/ann/ws"
JUDGE = CommandJudge((), PROTECTED_NAMES, HOME)


def rule_of(command: str, *, folder: str = FOLDER, denylist: tuple[str, ...] = ()) -> str | None:
    judge = CommandJudge(denylist, PROTECTED_NAMES, HOME) if denylist else JUDGE
    refused = judge.judge(command, folder)
    return refused.rule if refused else None


# -- rules --


def test_a_refusal_names_the_rule_the_part_and_another_way():
    place = next(rule.place for rule in builtin_rules() if rule.name == "remove-system-folder")
    assert place.startswith("rules.toml:")
    refused = JUDGE.judge("make && (cd src; rm -rf /etc) && ls", FOLDER)
    assert refused == RefusedCommand(
        rule="remove-system-folder",
        subcommand="rm -rf /etc",
        message=(
            "rm -rf /etc: it removes a system or home folder with everything in it (rule "
            f"remove-system-folder, {place})"
        ),
        next_action="Name the file or folder inside the working folder to remove.",
    )


def test_a_refusal_is_short_and_on_one_line():
    refused = JUDGE.judge("rm -rf / \\\n" + "x" * 1000 + "\x1b[31m", FOLDER)
    assert refused is not None
    assert len(refused.subcommand) <= SHOWN
    assert refused.message.isprintable()


@each_row(
    ("command", "folder", "is_refused"),
    [
        ("rm -rf build", "/usr/src/app", False),
        ("rm -rf /usr/src/app/build", "/usr/src/app", False),
        ("rm -rf /var/lib/agent/ws/x", "/var/lib/agent/ws", False),
        ("rm -rf /var/lib/agent", "/var/lib/agent/ws", True),
        ("rm -rf *", "/", True),
        ("rm -rf *", HOME, True),
        ("rm -rf *", "/home/project", False),
        ("rm -rf ..", FOLDER, True),
        ("rm -rf ../other", FOLDER, False),
        ("rm -rf ../../../etc", FOLDER, True),
        ("cd $x && rm -rf *", FOLDER, False),
        ("rm -rf $x/..", FOLDER, False),
        ("rm -rf /$x", FOLDER, False),
        ('rm -rf "$x"/etc', FOLDER, False),
    ],
)
def test_the_working_folder_tells_what_is_ordinary(command, folder, is_refused):
    assert (rule_of(command, folder=folder) is not None) is is_refused


def test_the_home_folder_is_the_one_that_was_given():
    judge = CommandJudge((), (), "/scratch/private/home")
    assert judge.judge("rm -rf ~", "/ws")
    assert judge.judge("rm -rf /scratch/private/home/*", "/ws")
    assert judge.judge("rm -rf ~/.cache", "/ws") is None


def test_a_program_of_the_project_is_not_the_systems():
    assert rule_of("./reboot") is None
    assert rule_of("scripts/sudo x") is None
    assert rule_of("/usr/bin/sudo x") == "change-user"
    assert rule_of("../../../usr/sbin/reboot") == "stop-machine"
    assert rule_of("./rm -rf /") == "remove-system-folder"
    assert rule_of('for t in tests/*; do "$t" /etc; done') is None
    assert rule_of("for t in ./s*; do $t; done") is None
    assert rule_of("for n in $(ls /etc/init.d); do /etc/init.d/$n status; done") is None
    assert rule_of("/sbin/re?oot") == "stop-machine"
    assert rule_of("re?oot") is None
    assert rule_of("case $x in su*) echo;; *o*) :;; esac <<A <<B") is None


@each_row(
    ("command", "is_refused"),
    [
        ("echo etc | xargs -I@ rm -rf /@", True),
        ("echo / | xargs -I@ rm -rf build/@", False),
        ("parallel 'rm -rf {}' ::: /", True),
        ("echo / | parallel rm -rf", True),
        ("parallel rm -rf {} ::: build /", True),
        ("parallel rm -rf ::: build", False),
        ("echo x > /proc/self/root/etc/passwd", True),
        ("tee /proc/self/task/12/root/etc/sudoers", True),
        ("cp x /proc/1/root/etc/shadow", True),
        ("rm -rf /proc/self/root/home/ann/ws/build", False),
        ("env -C / rm -rf etc", True),
        ("env --chdir=/etc rm -rf .", True),
        ("env -C build rm -rf etc", False),
        ("find /var -type f -print0 | xargs -0 rm -f", True),
        ("find ~ -mindepth 1 | xargs rm", True),
        ("find . -type f -print0 | xargs -0 rm -f", False),
        ("find /opt/data -type f | xargs rm", False),
        ("find /etc -type f | xargs grep -l x", False),
        ("find . -name '*.o' | xargs rm", False),
        ("find /etc -type f | sort | xargs rm -f", True),
        ("ls / | xargs -I{} rm -rf /{}", True),
        ("cd / && ls | xargs rm -rf", True),
        ("ls | xargs rm -rf", False),
        ("echo /* | xargs rm -rf", True),
        ("echo build/* | xargs rm -rf", False),
        ("echo rm -rf /* | sh", True),
        ('for d in */; do rm -rf "$d"; done', False),
        ("rm -f /etc/*", True),
        ("rm -f /tmp/x/*", False),
        ("rm -f *", False),
        ("chmod 600 ~/.ssh/*", False),
        ("d=build/; rm -rf ${d%/}", False),
    ],
)
def test_a_place_is_known_however_it_is_put_together(command, is_refused):
    assert (rule_of(command) is not None) is is_refused


# -- what cannot be read --


@each_row(
    ("command", "is_refused"),
    [
        ("ls &&& rm -rf /", True),
        ("echo 'x; sudo id", True),
        ("if true; then mkfs.ext4 /dev/sda", True),
        ("echo x > /etc/passwd; (", True),
        ("echo 'unfinished", False),
        ("ls &&& rm -rf build", False),
        ("git commit -m 'it's broken", False),
        ("( cat x | tee y", False),
        ("bash -c 'ls &&& rm -rf /'", True),
        ("bash -c 'ls &&& true'", False),
        ("$(" * 50 + "reboot", True),
    ],
)
def test_what_the_grammar_cannot_read_is_refused_where_a_rule_might_apply(command, is_refused):
    assert (rule_of(command) is not None) is is_refused


# -- protected names --


@each_row(
    "command",
    [
        "echo x > .git/hooks/pre-commit",
        "echo x >> $DIR/.bashrc",
        "cd .git && cp x hooks/",
        "tee .vscode/settings.json",
        "sed -i s/a/b/ .git/config",
        "perl -pi -e s/a/b/ .mcp.json",
        "mv x ~/.zshrc",
        "mv .vscode old",
        "rm -r .git/hooks",
        "ln -s x .GIT",
        "install -m 755 x .git/hooks/post-merge",
        "curl -sLo .git/hooks/x http://h/x",
        "dd of=.profile",
        "cp x/.bashrc ~",
        "cp x/.bashrc y .",
        "truncate -s 0 sub/.mcp.json",
        "chmod +x .git/hooks/x",
        "cat <<E > ./.profile\nx\nE",
    ],
)
def test_a_visible_write_to_a_protected_name_is_refused(command):
    assert rule_of(command) == "protected-name"


@pytest.mark.parametrize(
    "command",
    [
        "cat .bashrc > copy",
        "cp .bashrc bashrc.bak",
        "git config user.name x",
        "rm -rf .git",
        "ls .vscode",
        "grep -r x .git/config",
        "sed -n p .git/config",
        "perl -Mstrict -ne print .git/config",
        "echo x > .gitignore",
        "scp x host:.bashrc",
        "diff .bashrc other",
    ],
)
def test_reading_a_protected_name_is_ordinary(command):
    assert rule_of(command) is None


def test_without_protected_names_nothing_is_protected():
    assert CommandJudge((), (), HOME).judge("echo x > .bashrc", FOLDER) is None


# -- the operator's denylist --


@each_row(
    ("entry", "command", "is_denied"),
    [
        ("curl", "curl x", True),
        ("curl", "ls && /usr/bin/curl x", True),
        ("curl", "bash -c 'env curl x'", True),
        ("curl", "c''url x", True),
        ("curl", "echo curl", False),
        ("curl", "ls curl.txt", False),
        ("curl", "git commit -m 'use curl'", False),
        ("git push", "git push origin main", True),
        ("git push", "git -C dir -c a=b --no-pager push", True),
        ("git push", "git log push", False),
        ("git push", "git pull", False),
        ("git push", "git commit -m 'git push'", False),
        ("git push --force", "git push origin -f main", False),
        ("git push --force", "git push origin --force", True),
        ("git push --force", "git push --force-with-lease", False),
        ("rm -r", "rm -fr x", True),
        ("rm -r", "rm x", False),
        ("npm pub*", "npm publish", True),
        ("kubectl delete", "kubectl -n x delete pod y", True),
        ("python*", "python3.12 x", True),
        ("/opt/x/run", "/opt/x/run", True),
        ("/opt/x/run", "run", False),
        ("aws * rm", "aws s3 rm s3://x", True),
    ],
)
def test_the_denylist_is_judged_per_command(entry, command, is_denied):
    expected = f"TOOL_BASH_DENYLIST: {entry}" if is_denied else None
    assert rule_of(command, denylist=(entry,)) == expected


def test_an_entry_that_can_never_match_is_reported():
    entries = ("curl | sh", "rm -rf /; ls", "A=1 x", "for", "-x", "sub/run", "git push", "'a b'", "")
    dead = CommandJudge(entries, (), HOME).unmatchable_entries
    assert [entry for entry, _ in dead] == [entry for entry in entries if entry != "git push"]
    assert all(reason for _, reason in dead)


# -- unknown commands --


@each_row(
    ("command", "unknown", "is_refused"),
    [
        ("make", Decision.allow, False),
        ("make", Decision.deny, True),
        ("make", Decision.ask, True),
        ("$tool x", Decision.deny, True),
        ("> file", Decision.deny, True),
        ("git status", Decision.deny, False),
        ("timeout 5 git status", Decision.deny, False),
        ("git status && make", Decision.deny, True),
        ("bash -c 'git status'", Decision.deny, False),
        ("rsync -e 'git status' a b", Decision.deny, True),
        ("tar -I 'git status' -cf x a", Decision.deny, True),
        ("GIT_PAGER=x git status", Decision.deny, True),
        ("git status $(make)", Decision.deny, True),
        ("git status )", Decision.deny, True),
    ],
)
def test_the_policy_decides_about_commands_that_no_rule_names(command, unknown, is_refused):
    judge = CommandJudge((), (), HOME, [("team.toml", ALLOWING)])
    refused = judge.judge(command, FOLDER, unknown=unknown)
    assert (refused is not None) is is_refused
    if refused is not None:
        assert refused.rule == "shell.unknown"
        assert ("approval" in refused.message) is (unknown is Decision.ask)


ALLOWING = """
[[rule]]
name = "git"
decision = "allow"
reason = "everyone may look"
prefix = ["git status", "git log"]
match = ["git status -s"]
not_match = ["git push"]

[[rule]]
name = "push"
decision = "ask"
reason = "others see it"
instead = "Leave it on a branch."
prefix = ["git push"]
match = ["git push origin main"]
not_match = ["git pull"]

[[rule]]
name = "no-log-here"
decision = "deny"
reason = "the log is private"
prefix = ["git log"]
modes = ["plan"]
agents = ["review*"]
directories = ["/home/ann/ws/secret"]
match = ["git log"]
not_match = ["git status"]

[[rule]]
name = "no-rm"
decision = "allow"
reason = "a test"
prefix = ["rm"]
match = ["rm x"]
not_match = ["ls"]
"""


def test_the_strictest_rule_wins_and_ask_refuses_with_its_reason():
    judge = CommandJudge((), (), HOME, [("team.toml", ALLOWING)])
    refused = judge.judge("rm -rf /", FOLDER)
    assert refused is not None
    assert refused.rule == "remove-system-folder"
    asked = judge.judge("git status; git push", FOLDER)
    assert (asked.rule, asked.decision) == ("push", Decision.ask)
    assert asked.message == (
        "git push: others see it; it needs an approval, and approvals cannot be given yet "
        "(rule push, team.toml:10)"
    )
    assert asked.next_action == "Leave it on a branch."
    assert judge.judge("git push; reboot", FOLDER).rule == "stop-machine"


@each_row(
    ("mode", "agent", "folder", "is_refused"),
    [
        ("plan", "reviewer", "/home/ann/ws/secret/a", True),
        ("coding", "reviewer", "/home/ann/ws/secret/a", False),
        ("plan", "", "/home/ann/ws/secret/a", False),
        ("plan", "writer", "/home/ann/ws/secret/a", False),
        ("plan", "reviewer", "/home/ann/ws/secrets", False),
    ],
)
def test_a_rule_holds_in_its_modes_for_its_agents_and_directories(mode, agent, folder, is_refused):
    judge = CommandJudge((), (), HOME, [("team.toml", ALLOWING)])
    refused = judge.judge("git log", folder, mode=mode, agent=agent)
    assert (refused is not None) is is_refused


# -- properties --

DESTRUCTIVE = st.sampled_from(
    ["rm -rf /", "sudo id", "reboot", "echo x > /dev/sda", ": > /etc/passwd", "$(reboot)"]
)
ANY_TEXT = st.text(alphabet="ab '\"\\`$(){};|&<>*~#!\n/", max_size=20)


@settings(max_examples=200)
@given(st.lists(st.one_of(DESTRUCTIVE, ANY_TEXT), max_size=5).map(" ; ".join))
def test_text_in_single_quotes_never_changes_a_decision(text):
    quoted = "'" + text.replace("'", "'\\''") + "'"
    assert rule_of(f"echo {quoted}") is None
    assert rule_of(f"git commit -m {quoted} && ls") is None
    assert rule_of(f"echo {quoted}; reboot") == "stop-machine"


@settings(max_examples=200)
@given(ANY_TEXT)
def test_a_literal_here_document_never_changes_a_decision(text):
    body = f"rm -rf /\n{text}\nsudo id"
    assert rule_of(f"cat > notes.txt <<'END-OF-IT'\n{body}\nEND-OF-IT\nls") is None


@settings(max_examples=300)
@given(st.lists(st.one_of(DESTRUCTIVE, ANY_TEXT), max_size=8).map("".join))
def test_any_text_is_judged_without_an_error(text):
    refused = JUDGE.judge(text, FOLDER)
    assert refused is None or refused.message.isprintable()


@settings(max_examples=100)
@given(
    DESTRUCTIVE,
    st.sampled_from(["ls; {}", "true && {}", "({})", "bash -c '{}'", "if a; then {}; fi", "a | ({})"]),
)
def test_a_destructive_command_is_found_wherever_it_stands(command, frame):
    assert rule_of(frame.format(command)) is not None
