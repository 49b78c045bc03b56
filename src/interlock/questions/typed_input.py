"""Converts what a person typed to the type of a field."""

from typing import Any

YES = frozenset({"y", "yes", "true", "是", "好", "确认"})
NO = frozenset({"n", "no", "false", "否", "不"})


def parse_typed(kind: str, text: str) -> Any:
    """Text that cannot be converted is returned unchanged, and is refused later with the field's name."""
    if not text:
        return None
    if kind == "boolean":
        said = text.lower()
        return said in YES if said in YES | NO else text
    try:
        if kind == "integer" or (kind == "number" and text.lstrip("+-").isdigit()):
            return int(text)
        return float(text) if kind == "number" else text
    except ValueError:
        return text
