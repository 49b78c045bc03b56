"""Completion as a shell does it, with the script that the command prints."""

import subprocess

from tests.harness.case_tables import each_row

ASKED = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
$(complete -p interlock | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(script, *words: str) -> list[str]:
    done = subprocess.run(
        ["bash", "-c", ASKED, "bash", str(script), *words], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_and_options(interlock):
    script = interlock.home / "completion.bash"
    script.write_text(interlock("completion", "bash").stdout)
    assert completed(script, "interlock", "ev") == ["events"]
    assert {"tree", "tail", "verify"} <= set(completed(script, "interlock", "events", ""))
    assert completed(script, "interlock", "chat", "--ro") == ["--root"]
    assert completed(script, "interlock", "nonsense", "--roo") == []


@each_row(("shell", "begins"), [("zsh", "#compdef interlock"), ("fish", "# Fish completion")])
def test_the_scripts_of_other_shells_are_printed(interlock, shell, begins):
    printed = interlock("completion", shell).stdout
    assert printed.startswith(begins)
    assert "workflow" in printed


def test_another_shell_is_refused_by_name(interlock):
    done = interlock("completion", "tcsh", expect=2)
    assert "tcsh" in done.stderr
    assert "bash" in done.stderr
