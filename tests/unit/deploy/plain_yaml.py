"""Reads the part of YAML that our compose files keep to: maps and lists by indentation, a value on a line.

Anything else is refused, so that what is tested is what Compose reads.
"""

import json
import re
from pathlib import Path
from typing import Any

_KEY = re.compile(r"([A-Za-z0-9_./-]+):(?: (.+))?")


def read_yaml(path: Path) -> Any:
    lines = [
        (len(line) - len(line.lstrip()), line.strip())
        for line in path.read_text().splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    value, rest = _block(lines, 0)
    if rest:
        raise ValueError(f"not understood: {rest[0]}")
    return value


def _block(lines: list[tuple[int, str]], indent: int) -> tuple[Any, list[tuple[int, str]]]:
    if lines and lines[0][0] == indent and lines[0][1].startswith("- "):
        return _list(lines, indent)
    found: dict[str, Any] = {}
    while lines and lines[0][0] == indent:
        matched = _KEY.fullmatch(lines[0][1])
        if matched is None or matched[1] in found:
            raise ValueError(f"not understood: {lines[0][1]}")
        key, value = matched.groups()
        lines = lines[1:]
        if value is not None:
            found[key] = _scalar(value)
        elif lines and lines[0][0] > indent:
            found[key], lines = _block(lines, lines[0][0])
        else:
            found[key] = None
    return found, lines


def _list(lines: list[tuple[int, str]], indent: int) -> tuple[list[Any], list[tuple[int, str]]]:
    items: list[Any] = []
    while lines and lines[0][0] == indent and lines[0][1].startswith("- "):
        content = lines[0][1].removeprefix("- ")
        if not content.startswith('"') and _KEY.fullmatch(content):
            item, lines = _block([(indent + 2, content), *lines[1:]], indent + 2)
            items.append(item)
        else:
            items.append(_scalar(content))
            lines = lines[1:]
    return items, lines


def _scalar(text: str) -> Any:
    if text.startswith(('"', "[")):
        return json.loads(text)
    if re.search(r"[&*!|>{}#'%@`]|: ", text):
        raise ValueError(f"write it in quotes: {text}")
    if text in {"true", "false"}:
        return text == "true"
    return int(text) if text.isdecimal() else text
