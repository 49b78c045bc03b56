"""The example of embedding, run as somebody who has just cloned the repository runs it."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "embed.py"


def test_the_example_calls_is_refused_and_verifies_its_log(interlock):
    notes = (EXAMPLE.parent / "playground" / "notes.txt").read_bytes()
    done = subprocess.run(
        [sys.executable, EXAMPLE],
        capture_output=True,
        text=True,
        cwd=interlock.home,
        env=interlock.environment,
    )
    assert (done.returncode, done.stderr) == (0, "")
    first, counted, *read, refused, verified = done.stdout.splitlines()
    assert "count_words" in first
    assert "read_file" in first
    assert "write_file" not in first
    assert counted == "6 words"
    assert any("def greet" in line for line in read)
    assert refused == "write_file is not allowed in chat mode"
    session = re.fullmatch(r"log verified: True, \d+ events; interlock events tree (s_\w+)", verified)[1]
    # What it did is in the log of everybody else.
    tree = interlock("events", "tree", session).stdout
    assert "tool_call.denied" in tree
    assert "count_words" in tree
    assert (EXAMPLE.parent / "playground" / "notes.txt").read_bytes() == notes


def test_the_example_is_short():
    code = [line for line in EXAMPLE.read_text().splitlines() if line.strip()]
    assert len(code) <= 20
