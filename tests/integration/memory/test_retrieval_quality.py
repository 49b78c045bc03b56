"""How often the right notes are among the first five, over a labelled set of questions in many languages.

The set was written by somebody who had not seen the search; what was tuned was tuned on the questions
marked `dev` alone. `-s` shows the figures.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

from tests.integration.memory.conftest import MemoryHarness

DATA = Path(__file__).parents[2] / "data" / "memory"
AT, NEEDED = 5, 0.98


def questions() -> list[dict]:
    return [json.loads(line) for line in (DATA / "questions.jsonl").read_text().splitlines()]


def recalls(memory: MemoryHarness) -> dict[str, list[float]]:
    """Of each question, how many of its notes were found; by split and by language."""
    found: dict[str, list[float]] = defaultdict(list)
    for question in questions():
        paths = set(memory.paths(question["question"], AT))
        recall = len(paths & set(question["notes"])) / len(question["notes"])
        for group in ("all", question["split"], question["kind"], f"language {question['lang']}"):
            found[group].append(recall)
    return found


def test_the_set_is_large_enough_and_its_labels_exist():
    asked = questions()
    assert len(asked) >= 60
    assert len({question["lang"] for question in asked}) >= 5
    notes = {str(path.relative_to(DATA / "notes")) for path in (DATA / "notes").rglob("*.md")}
    assert len(notes) >= 200
    assert {path for question in asked for path in question["notes"]} <= notes


def test_the_right_notes_are_among_the_first_five(tmp_path):
    memory = MemoryHarness(tmp_path, DATA / "notes")
    found = recalls(memory)
    means = {group: sum(values) / len(values) for group, values in found.items()}
    for group, mean in sorted(means.items()):
        sys.stdout.write(f"{group:14} {mean:.3f} of {len(found[group])}\n")
    assert {group: mean for group, mean in means.items() if mean < NEEDED} == {}
