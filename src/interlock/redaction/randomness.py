"""Whether letters, digits and signs are mixed as in no word of a language or a program."""

import re
from itertools import pairwise

from interlock.redaction.non_secrets import CAMEL_WITH_ACRONYMS, NUMBERED_WORDS

# A letter, and those that hardly ever follow it in names of programs: one pair in 5000.
_HARDLY_FOLLOW = {
    each[0]: each[1:]
    for each in b"""
    ahjoqz bbfghkmnpqtvwxz cgjnqvwxz dghjkmnqvwxz ehjkz fghjkmnpqvwxz gbcdfjkmpqvwxyz
    hbcdfghjklnpqvwxz ihijkqwy jabcdfghijklmnpqrtuvwxyz kbcdfghjklmnopqrtuvwxyz lhjkmnqrwxz
    mfghjkqrvwxz nbhjqwxz oehjqyz pbfjmnqvwxz qabcdefghijkmnopqrstvwxyz rhjqwxz sbjrxz tbgjkqvxz
    uhjkquvwxyz vbcdfghjklmnpqrstuvwxyz wbcdfgjklmpqtuvwxyz xabdfghjklnoqrsuvwxyz
    yabdefghjkoqruvwxyz zbcdfghijklmnopqrstuvwxyz
    """.split()
}


def kinds(value: bytes) -> tuple[bool, bool, bool, bool]:
    """Whether it has digits, lower case, upper case and other characters."""
    digits = any(48 <= byte <= 57 for byte in value)
    lower = any(97 <= byte <= 122 for byte in value)
    upper = any(65 <= byte <= 90 for byte in value)
    others = any(not (48 <= b <= 57 or 65 <= b <= 90 or 97 <= b <= 122) for b in value)
    return digits, lower, upper, others


def looks_random(value: bytes, least: int) -> bool:
    """Letters and digits mixed unlike words: not `version-two-final2`, not `2026-11-15`."""
    if len(value) < least:
        return False
    digits, lower, upper, others = kinds(value)
    if not digits or not (lower or upper):
        return False
    if lower and upper and not others:
        return True
    if NUMBERED_WORDS.fullmatch(value) and not is_unlike_identifier(value):
        return False
    runs = re.findall(rb"[A-Za-z]+|[0-9]+", value)
    return len(runs) * 5 >= len(value) or (others and lower and upper and len(runs) * 7 >= len(value))


def case_changes(value: bytes) -> int:
    return sum((65 <= first <= 90) != (65 <= second <= 90) for first, second in pairwise(value))


def has_odd_capitals(value: bytes) -> bool:
    """Whether a word of it has capitals as in no name of a program."""
    for word in re.findall(rb"[A-Za-z0-9]{6,}", value):
        least = 3 if any(48 <= byte <= 57 for byte in word) else 4
        if case_changes(word) >= least and not CAMEL_WITH_ACRONYMS.fullmatch(word):
            return True
    return False


def is_gibberish(value: bytes) -> bool:
    """Whether its letters, large and small, follow each other as in hardly any word: `xqmI2Yjb4`."""
    for word in re.findall(rb"[A-Za-z0-9]{6,}", value):
        if word.islower() or word.isupper():
            continue
        pairs = [pair for run in re.findall(rb"[a-z]+", word.lower()) for pair in pairwise(run)]
        odd = sum(second in _HARDLY_FOLLOW[first] for first, second in pairs)
        runs = re.findall(rb"[A-Za-z]+|[0-9]+", word)
        if (odd >= 2 and odd * 4 >= len(pairs)) or len(runs) * 2 >= len(word):
            return True
    return False


def is_unlike_identifier(value: bytes) -> bool:
    """Whether its letters are unlike those of any name in a program."""
    return has_odd_capitals(value) or is_gibberish(value)
