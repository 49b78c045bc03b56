"""The cases that the judges of commands and of paths are held against, from all their files.

The second files were written by somebody who had read neither the judges nor the other cases, the third
ones by the same person afterwards, the fourth ones like the second;
docs/security/sandbox-paths-redaction.md tells how they did at first.
"""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def command_cases() -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for path in sorted(HERE.glob("command_cases*.jsonl"))
        for line in path.read_text().splitlines()
    ]


def path_cases() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The trees by their names, which are in the first line of each file, and the cases."""
    layouts: dict[str, Any] = {}
    cases: list[dict[str, Any]] = []
    for path in sorted(HERE.glob("path_cases*.jsonl")):
        trees, *rest = map(json.loads, path.read_text().splitlines())
        assert not layouts.keys() & trees["layouts"].keys()
        layouts |= trees["layouts"]
        cases += rest
    return layouts, cases
