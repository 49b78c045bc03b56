"""Writes src/interlock/redaction/rules/ready.json: rules without their examples. `make rules`"""

import tomllib
from pathlib import Path

import orjson

import interlock.redaction
from interlock.redaction.checks import CHECKS
from interlock.redaction.patterns import source_of
from interlock.redaction.rulebook import READY, WRITTEN, Rule, written_rules
from interlock.redaction.stand_ins import relaxed

FOLDER = Path(interlock.redaction.__file__).parent / "rules"


def ready() -> bytes:
    names = {check: name for name, check in CHECKS.items()}
    fragments = tomllib.loads((FOLDER / WRITTEN[0]).read_text("utf-8"))["fragments"]
    document = {
        "secret_name": f"(?i:{fragments['word']}{fragments['ending']})",
        "rules": [_entry(rule, names[rule.check] if rule.check else None) for rule in written_rules()],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"


def _entry(rule: Rule, check: str | None) -> dict[str, str | None]:
    return {
        "id": rule.id,
        "what": rule.what,
        "pattern": rule.pattern,
        "check": check,
        "after": rule.after,
        "loose": source_of(relaxed(rule.tree)),
    }


if __name__ == "__main__":
    (FOLDER / READY).write_bytes(ready())
