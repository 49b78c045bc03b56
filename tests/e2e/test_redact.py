"""`interlock redact` as a filter in a pipe, with an operator's own rules (S3-6.3.4 to S3-6.3.6)."""

import json
import os
import select
import subprocess
import time

from interlock.redaction.redactor import MARK
from tests.harness.case_tables import each_row
from tests.harness.cli import one_line_error

OWN = """
[[rule]]
id = "acme-ticket"
what = "a ticket of the Acme gateway"
pattern = '''\\bACME-[A-Z0-9]{12}\\b'''
must = [["ACME-", "7QX2M9KD4TRW"]]
must_not = ["ACME-2026"]
"""


def filtered(interlock, data: bytes, **environment: str) -> bytes:
    done = interlock.run("redact", given=data, **environment)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def test_secrets_are_taken_out_and_everything_else_is_as_it_was(interlock):
    plain = b"one\r\n\xff\xfe not UTF-8 \x00\n" + "密码学 ß 🔑\n".encode() + b"no end of line"
    assert filtered(interlock, plain) == plain
    secret = b"before\nDB_PASSWORD=Zx9" + b"-hunter-77\nafter"
    assert filtered(interlock, secret) == f"before\nDB_PASSWORD={MARK}\nafter".encode()


def test_text_leaves_while_the_input_goes_on(interlock):
    """A follower of a log must see a line when it was written, not when the log ends."""
    pipe = subprocess.PIPE
    with interlock.start("redact", stdin=pipe, stdout=pipe, bufsize=0) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(b"started\ntoken: abc")
        seen = until(running.stdout.fileno(), b"started\n")
        assert b"abc" not in seen
        running.stdin.write(b"9-x8-Q77z\nended\n")
        seen += until(running.stdout.fileno(), b"ended\n")
        running.stdin.close()
        assert seen + running.stdout.read() == f"started\ntoken: {MARK}\nended\n".encode()


def until(descriptor: int, wanted: bytes) -> bytes:
    seen, deadline = b"", time.monotonic() + 30
    while wanted not in seen:
        assert select.select([descriptor], [], [], deadline - time.monotonic())[0], seen
        seen += os.read(descriptor, 65536)
    return seen


def test_a_variable_with_a_secrets_name_is_known_wherever_its_value_turns_up(interlock):
    value = "plain-looking-words"
    assert filtered(interlock, value.encode()) == value.encode()
    assert filtered(interlock, value.encode(), STAGING_TOKEN=value) == MARK.encode()
    assert filtered(interlock, value.encode(), STAGING_NAME=value) == value.encode()
    assert filtered(interlock, b"in /srv/work/here", PWD="/srv/work", OLDPWD="/srv") == b"in /srv/work/here"


def test_an_operator_adds_rules_and_switches_some_off(interlock, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text(OWN)
    ticket = b"see ACME-7QX2" + b"M9KD4TRW."
    assert filtered(interlock, ticket) == ticket
    assert filtered(interlock, ticket, REDACTION_RULES=str(rules)) == f"see {MARK}.".encode()
    assert filtered(interlock, ticket, REDACTION_RULES=str(rules), REDACTION_OFF="acme-ticket") == ticket


def test_the_rules_can_be_listed(interlock, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text(OWN)
    interlock.variables["REDACTION_RULES"] = str(rules)
    listed = json.loads(interlock("redact", "--rules", "--json").stdout)
    ids = [rule["id"] for rule in listed]
    assert len(ids) == len(set(ids)) > 150
    assert ids[-1] == "acme-ticket"
    assert "a ticket of the Acme gateway" in interlock("redact", "--rules").stdout


@each_row(
    ("text", "reason"),
    [
        ("[[rule", "is not TOML"),
        (OWN.replace("ACME-2026", "ACME-AAAAAAAAAAAA"), "matches its counter-example"),
        (OWN.replace("7QX2M9KD4TRW", "7QX2"), "does not match its example"),
        (OWN.replace("{12}", "{12}(?=x)"), "invalid perl operator"),
        (OWN.replace("acme-ticket", "named"), "two rules with the id 'named'"),
        (OWN.replace("must_not", "mustnot"), "'mustnot' is not a field"),
        (OWN + 'check = "clever"\n', "there is no check 'clever'"),
    ],
)
def test_wrong_rules_stop_the_start_with_one_sentence(interlock, tmp_path, text, reason):
    rules = tmp_path / "rules.toml"
    rules.write_text(text)
    interlock.variables["REDACTION_RULES"] = str(rules)
    for command in (["redact"], ["tool", "call", "current_time"]):
        error = one_line_error(interlock, *command)
        assert "REDACTION_RULES" in error
        assert reason in error


def test_a_missing_file_and_an_unknown_rule_are_named(interlock, tmp_path):
    interlock.variables["REDACTION_RULES"] = str(tmp_path / "missing.toml")
    assert "missing.toml cannot be read" in one_line_error(interlock, "redact")
    del interlock.variables["REDACTION_RULES"]
    interlock.variables["REDACTION_OFF"] = "no-such-rule"
    assert "no rule 'no-such-rule'" in one_line_error(interlock, "redact")


def test_filtering_opens_no_store(interlock):
    filtered(interlock, b"x")
    assert not any(path.suffix == ".db" for path in interlock.home.rglob("*"))
