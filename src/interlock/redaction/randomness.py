"""Whether letters, digits and signs are mixed as in no word that a language or a program has."""

import re
from itertools import pairwise

from interlock.redaction.harmless import CAMEL_WITH_ACRONYMS


def kinds(value: bytes) -> tuple[bool, bool, bool, bool]:
    """Whether there are digits, lower case, upper case and other signs in it."""
    digits = any(48 <= byte <= 57 for byte in value)
    lower = any(97 <= byte <= 122 for byte in value)
    upper = any(65 <= byte <= 90 for byte in value)
    others = any(not (48 <= b <= 57 or 65 <= b <= 90 or 97 <= b <= 122) for b in value)
    return digits, lower, upper, others


def looks_random(value: bytes, least: int) -> bool:
    """Letters and digits mixed as nobody writes words: not `version-two-final2`, not `2026-11-15`."""
    if len(value) < least:
        return False
    digits, lower, upper, others = kinds(value)
    if not digits or not (lower or upper):
        return False
    if lower and upper and not others:
        return True
    runs = re.findall(rb"[A-Za-z]+|[0-9]+", value)
    return len(runs) * 5 >= len(value) or (others and lower and upper and len(runs) * 7 >= len(value))


def case_changes(value: bytes) -> int:
    return sum((65 <= first <= 90) != (65 <= second <= 90) for first, second in pairwise(value))


def has_odd_capitals(value: bytes) -> bool:
    """Whether there are capitals in a word of it as in no name that a program has."""
    for word in re.findall(rb"[A-Za-z0-9]{6,}", value):
        least = 3 if any(48 <= byte <= 57 for byte in word) else 4
        if case_changes(word) >= least and not CAMEL_WITH_ACRONYMS.fullmatch(word):
            return True
    return False
