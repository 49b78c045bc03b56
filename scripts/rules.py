"""Writes src/interlock/redaction/rules/ready.json: rules without their examples. `make rules`"""

import tomllib
from pathlib import Path

import orjson

import interlock.redaction
from interlock.redaction.checks import CHECKS
from interlock.redaction.pattern_parser import to_source
from interlock.redaction.prefilters import relax_pattern
from interlock.redaction.rule_loader import READY, WRITTEN, RedactionRule, load_rule_sources

FOLDER = Path(interlock.redaction.__file__).parent / "rules"


def ready() -> bytes:
    names = {check: name for name, check in CHECKS.items()}
    fragments = tomllib.loads((FOLDER / WRITTEN[0]).read_text("utf-8"))["fragments"]
    document = {
        "secret_name": f"(?i:{fragments['word']}{fragments['ending']})",
        "rules": [_entry(rule, names[rule.check] if rule.check else None) for rule in load_rule_sources()],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"


def _entry(rule: RedactionRule, check: str | None) -> dict[str, str | None]:
    return {
        "id": rule.id,
        "what": rule.what,
        "pattern": rule.pattern,
        "check": check,
        "after": rule.after,
        "loose": to_source(relax_pattern(rule.tree)),
    }


if __name__ == "__main__":
    (FOLDER / READY).write_bytes(ready())
