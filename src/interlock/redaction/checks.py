"""Tells a secret from a word, a placeholder or a piece of code, where a pattern alone cannot.

A check sees the text as bytes and where in it the candidate is. It looks at no more than `LOOKS_BACK`
bytes before the match and one behind the candidate, so that a stream can ask it as well.
"""

import base64
import binascii
import re
from dataclasses import replace

from interlock.redaction.candidate import Candidate, Check
from interlock.redaction.harmless import (
    CAMEL,
    CODE,
    CONSTANT,
    DOTTED,
    ENV_NAME,
    EXPANSION,
    FIELD,
    FLAG_WORD,
    FOREIGN_LABEL,
    IDENTIFIER,
    IN_QUERY,
    LABEL_WORDS,
    MESSAGE_KEY,
    NAME,
    NAME_OF_ONE,
    NO_PASSWORD,
    PASSWORD_NAME,
    PATH,
    PHRASE,
    PLAIN_WORDS,
    REGEX,
    REST_OF_A_MARK,
    SIGN_INSIDE,
    SWITCHED_OFF,
    TEMPLATE,
    UUID,
    VERB,
    WORDS,
    WORDS_AND_NUMBER,
    has_safe_name,
    is_placeholder,
)
from interlock.redaction.in_code import is_code, is_type, is_type_in_quotes
from interlock.redaction.randomness import case_changes, has_odd_capitals, kinds, looks_random


def quoted_value(candidate: Candidate) -> bool:
    """A literal that is given a secret's name: anything but a placeholder, a label or a path."""
    value = candidate.value.strip(b"` \t\r\n\f\v")
    if len(value) < 4 or is_placeholder(value) or PATH.fullmatch(value):
        return False
    if has_safe_name(candidate.context):
        return False
    if (
        TEMPLATE.fullmatch(value)
        or CODE.match(candidate.value)
        or DOTTED.fullmatch(value)
        or REGEX.fullmatch(value)
        or is_type_in_quotes(value)
        or FOREIGN_LABEL.fullmatch(value)
    ):
        return False
    if b" " in value or b"\t" in value:
        return _is_phrase(value)
    if value.isdigit():
        return len(value) >= 6 or PASSWORD_NAME.search(candidate.context) is not None
    return not WORDS.fullmatch(value) or _are_secret_words(value, candidate.context)


def _are_secret_words(value: bytes, context: bytes) -> bool:
    """Words: a password may consist of some, a token does not, and the key of a message is no secret."""
    if case_changes(value) * 5 >= len(value) * 2:
        return True
    return PASSWORD_NAME.search(context) is not None and not MESSAGE_KEY.search(value)


def _is_phrase(value: bytes) -> bool:
    """Words of a passphrase rather than of a sentence."""
    if LABEL_WORDS.search(value) or value[-1:] in b".!?:":
        return False
    return not PHRASE.fullmatch(value)


def bare_value(candidate: Candidate) -> bool:
    """A value without quotes: in code it would be a name, a call or a number."""
    value = candidate.value
    if candidate.text[candidate.end - 1 : candidate.end] in b".:!?" and len(value) < 10:
        value = value.rstrip(b".:!?")
    if len(value) < 4 or is_placeholder(value) or PATH.fullmatch(value) or DOTTED.fullmatch(value):
        return False
    context = candidate.context
    if has_safe_name(context) or context.rstrip().endswith(b"==") or _is_no_value(value, context):
        return False
    if value.isdigit():
        return len(value) >= 6 and PASSWORD_NAME.search(context) is not None
    if ENV_NAME.search(context) or IN_QUERY.search(context):
        return not NAME.fullmatch(value) or (value.isalpha() and len(value) >= 6)
    if is_code(value, candidate) or CONSTANT.fullmatch(value):
        return False
    if NAME.fullmatch(value):
        return PASSWORD_NAME.search(context) is not None and has_odd_capitals(value)
    name = value.lstrip(b"!")
    return not IDENTIFIER.fullmatch(name) or (looks_random(name, 20) and not is_type(name))


def _is_no_value(value: bytes, context: bytes) -> bool:
    """What a shell says where a variable is not set, or the next field of a log: `auth: user=alice`."""
    if value[:1] in b"?+" and EXPANSION.search(context):
        return True
    return FIELD.fullmatch(value) is not None and not looks_random(value.partition(b"=")[2], 12)


def named_value(candidate: Candidate) -> bool:
    is_quoted = candidate.text[candidate.begin - 1 : candidate.begin] in (b'"', b"'", b"`")
    return quoted_value(candidate) if is_quoted else bare_value(candidate)


def element_text(candidate: Candidate) -> bool:
    """Not the name of a group in a regular expression, which is written the same way."""
    is_group = candidate.text[max(0, candidate.start - 1) : candidate.start] in (b"?", b"P")
    return not is_group and quoted_value(candidate)


def env_value(candidate: Candidate) -> bool:
    value = candidate.value
    name = candidate.context.rstrip(b"=").rpartition(b" ")[2]
    if name.endswith(
        (b"OLDPWD", b"_FILE", b"PATH", b"NAME", b"_ID", b"_TYPE", b"_URL", b"_DIR", b"_COUNT", b"_LIMIT")
    ):
        return False
    if name.lstrip(b"+-#> ") == b"PWD" or len(value) < 4 or is_placeholder(value) or PATH.fullmatch(value):
        return False
    if value.isdigit():
        return len(value) >= 6
    if DOTTED.fullmatch(value):
        return False
    return not (b"PASS" not in name and b"PWD" not in name and NAME.fullmatch(value) and len(value) < 12)


def flag_value(candidate: Candidate) -> bool:
    value = candidate.value
    if candidate.text[max(0, candidate.start - 1) : candidate.start] in (b"-", b"\\"):
        # A dash between words--like this, or in the source of a manual.
        return False
    if len(value) < 4 or is_placeholder(value.rstrip(b").,;")) or PATH.fullmatch(value):
        return False
    if _is_off(candidate.context):
        return False
    if value.isdigit():
        return len(value) >= 6
    return FLAG_WORD.fullmatch(value) is None


def _is_off(context: bytes) -> bool:
    return SWITCHED_OFF.search(context) is not None or has_safe_name(context)


def header_value(candidate: Candidate) -> bool:
    value = candidate.value
    if is_placeholder(value) or b"://" in value or candidate.follower in (b"(", b"{", b"<", b"$"):
        return False
    digits, lower, upper, others = kinds(value)
    if NAME_OF_ONE.fullmatch(value) or (IDENTIFIER.fullmatch(value) and not (digits or upper)):
        return False
    return digits or (lower and upper and (others or case_changes(value) >= 4)) or len(value) >= 32


def random_value(candidate: Candidate) -> bool:
    if has_safe_name(candidate.context):
        return False
    value = candidate.value
    if UUID.fullmatch(value) or is_placeholder(value) or value.count(b"/") > 1 or value.count(b"-") > 3:
        return False
    if candidate.follower == b"." or candidate.is_called:
        return False
    return looks_random(value, 16)


def random_word(candidate: Candidate) -> bool:
    """At least eight signs that no language would put together."""
    value = candidate.value.rstrip(b".,;:!?)'\"")
    if is_placeholder(value) or PATH.fullmatch(value):
        return False
    digits, lower, upper, others = kinds(value)
    if len(value) < 8 or not digits or not (lower or upper):
        return len(value) >= 16 and lower and upper and case_changes(value) * 5 >= len(value) * 2
    if PLAIN_WORDS.fullmatch(value) is None or len(re.findall(rb"[A-Za-z]+", value)) * 6 > len(value):
        return True
    return not others and lower and upper


def random_token(candidate: Candidate) -> bool:
    """The same for a token of a form of its own, which may have become the name of a file.

    Its beginning is known; what follows may by chance have no digit.
    """
    name, dot, _ = candidate.value.rpartition(b".")
    if dot and PATH.fullmatch(candidate.value):
        return random_token(replace(candidate, end=candidate.begin + len(name)))
    own = candidate.value.partition(b"-")[2]
    return random_word(candidate) or (len(own) >= 16 and case_changes(own) * 4 >= len(own))


def said_value(candidate: Candidate) -> bool:
    """A word that no sentence has: random, or with a sign or with capitals in the middle of it."""
    value = candidate.value.rstrip(b".,;:!?)'\"")
    if random_word(candidate) or _is_made_of_words(candidate, value):
        return True
    _, lower, upper, _ = kinds(value)
    if len(value) < 8 or not (lower and upper) or is_placeholder(value) or PATH.fullmatch(value):
        return False
    return SIGN_INSIDE.search(value) is not None or has_odd_capitals(value)


def _is_made_of_words(candidate: Candidate, value: bytes) -> bool:
    """Words and a number, which a password may be and a token is not."""
    said = candidate.text[candidate.start : candidate.begin]
    return WORDS_AND_NUMBER.fullmatch(value) is not None and NO_PASSWORD.search(said) is None


def told_value(candidate: Candidate) -> bool:
    """A random word where the words around it make a secret likely, but do not prove it."""
    value = candidate.value.rstrip(b".,;:!?)'\"*")
    if candidate.is_called or has_safe_name(candidate.context):
        return False
    if value.startswith(REST_OF_A_MARK) or VERB.search(candidate.context) or FIELD.fullmatch(value):
        return False
    if DOTTED.fullmatch(value) or REGEX.fullmatch(value) or b"://" in value or value.count(b"/") > 2:
        return False
    if IDENTIFIER.fullmatch(value.rstrip(b"(")) and not has_odd_capitals(value):
        return False
    if b" " in value or b"\\" in value or CAMEL.fullmatch(value):
        return False
    _, lower, upper, _ = has = kinds(value)
    if PLAIN_WORDS.fullmatch(value) and not (lower and upper):
        return False
    if lower and upper and re.search(rb"[!#$%^&*~+?]", value):
        is_quoted = candidate.text[candidate.begin - 1 : candidate.begin] in (b'"', b"'")
        if case_changes(value) * 4 >= len(value) or (is_quoted and SIGN_INSIDE.search(value)):
            return not is_placeholder(value)
    return random_word(candidate) and (sum(has) >= 3 or len(value) >= 16)


def random_list(candidate: Candidate) -> bool:
    """Whether all of several are random; a list of names is not."""
    if candidate.follower in (b"(", b".", b"["):
        return False
    items = [item.strip(b" \t\r\n\"'`") for item in candidate.value.split(b",")]
    return all(looks_random(item, 12) and not is_placeholder(item) for item in items)


def lone_word(candidate: Candidate) -> bool:
    """Not a piece of a longer base64 text."""
    before = candidate.text[max(0, candidate.start - 1) : candidate.start]
    return (
        before not in (b"+", b"/", b"-", b"_", b"%")
        and candidate.follower not in (b"+", b"/")
        and random_word(candidate)
    )


def mixed_word(candidate: Candidate) -> bool:
    digits, lower, upper, _ = kinds(candidate.value[2:])
    return digits and lower and upper


def url_password(candidate: Candidate) -> bool:
    value = candidate.value
    if value.isdigit():
        return len(value) > 5
    return not is_placeholder(value) and REGEX.fullmatch(value) is None


def basic_credentials(candidate: Candidate) -> bool:
    """Whether it decodes to user:password."""
    value = candidate.value.translate(bytes.maketrans(b"-_", b"+/")).rstrip(b"=")
    try:
        decoded = base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    try:
        return (
            re.fullmatch(r"[\w.@+\\-]*:.+", decoded.decode()) is not None and decoded.decode().isprintable()
        )
    except UnicodeDecodeError:
        return False


def sql_value(candidate: Candidate) -> bool:
    value = candidate.value
    if len(value) < 4 or is_placeholder(value) or b" " in value or CODE.match(value):
        return False
    return (
        candidate.context[-2:-1] != b"("
        or re.search(rb"(?i)password\s*\($", candidate.context[:-1]) is not None
    )


def web_token(candidate: Candidate) -> bool:
    """Three parts or five, or a header that decodes to an object which names its algorithm."""
    parts = [part for part in candidate.value.split(b".") if part]
    if len(parts) >= 3:
        return True
    try:
        header = base64.urlsafe_b64decode(parts[0] + b"=" * (-len(parts[0]) % 4))
    except (binascii.Error, ValueError):
        return False
    return b'"alg"' in header


def key_block(candidate: Candidate) -> bool:
    """Whether there is key material in it, not only a mention of how such a block begins."""
    return re.search(rb"[A-Za-z0-9+/]{20,}", candidate.value) is not None


CHECKS: dict[str, Check] = {
    "named-value": named_value,
    "quoted-value": quoted_value,
    "bare-value": bare_value,
    "element-text": element_text,
    "env-value": env_value,
    "flag-value": flag_value,
    "header-value": header_value,
    "random-value": random_value,
    "random-word": random_word,
    "random-token": random_token,
    "said-value": said_value,
    "told-value": told_value,
    "random-list": random_list,
    "lone-word": lone_word,
    "mixed-word": mixed_word,
    "url-password": url_password,
    "basic-credentials": basic_credentials,
    "sql-value": sql_value,
    "web-token": web_token,
    "key-block": key_block,
}
