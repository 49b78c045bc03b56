"""Writes src/interlock/redaction/rules/ready.json: rules without their examples. `make rules`"""

from pathlib import Path

import orjson

import interlock.redaction
from interlock.redaction.checks import CHECKS
from interlock.redaction.rule_loader import READY, WRITTEN, RedactionRule, load_family, shared_fragments
from interlock.redaction.scanner import loosened

FOLDER = Path(interlock.redaction.__file__).parent / "rules"


def ready() -> bytes:
    fragments = shared_fragments()
    document = {
        "secret_name": f"(?i:{fragments['word']}{fragments['ending']})",
        "families": [_family(load_family(name)) for name in WRITTEN],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"


def _family(rules: tuple[RedactionRule, ...]) -> dict[str, object]:
    names = {check: name for name, check in CHECKS.items()}
    return {
        "begins": rules[0].begins,
        "rules": [_entry(rule, names[rule.check] if rule.check else None) for rule in rules],
    }


def _entry(rule: RedactionRule, check: str | None) -> dict[str, str | None]:
    return {
        "id": rule.id,
        "what": rule.what,
        "pattern": rule.pattern,
        "check": check,
        "after": rule.after,
        "loose": loosened(rule.pattern),
    }


if __name__ == "__main__":
    (FOLDER / READY).write_bytes(ready())
