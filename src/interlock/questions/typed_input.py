"""What a person typed, as the type that a field wants."""

from typing import Any

YES = frozenset({"y", "yes", "true", "是", "好", "确认"})
NO = frozenset({"n", "no", "false", "否", "不"})


def parse_typed(kind: str, text: str) -> Any:
    """Where that fails it stays as it is, to be refused with the field's name."""
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
