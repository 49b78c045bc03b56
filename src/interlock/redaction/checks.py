"""Distinguishes secrets from words, placeholders and code, where a pattern alone cannot.

A check sees the text as bytes and the position of the candidate. It looks at no more than `LOOKS_BACK`
bytes before the match and one behind the candidate, so that a stream can use it as well.
"""

import re
from dataclasses import replace

from interlock.redaction import word_checks
from interlock.redaction.candidate import Check, SecretCandidate
from interlock.redaction.code_heuristics import is_code, is_long_base64, is_path, is_type, is_type_in_quotes
from interlock.redaction.decoding_checks import basic_credentials, key_block, url_in_base64, web_token
from interlock.redaction.non_secrets import (
    AFTER_SCHEME,
    ALONE,
    ASSIGNED,
    CALL,
    CAMEL,
    CAPITALISED,
    CODE,
    COMMAND,
    CONSTANT,
    DOTTED,
    ENV_NAME,
    EXPANSION,
    FIELD,
    FLAG_WORD,
    FOREIGN_LABEL,
    IDENTIFIER,
    IN_DATA,
    NAME,
    NUMBERED_WORDS,
    OBJECT,
    OBJECT_NAME,
    OF_A_TOKEN,
    OF_AN_OBJECT,
    PASSPHRASE,
    PASSWORD_CONTEXT,
    PASSWORD_NAME,
    PLAIN_WORDS,
    PROGRAM,
    REGEX,
    REST_OF_A_MARK,
    SCHEME,
    SECRET_VARIABLE_NAME,
    SECTION,
    SENTENCE_WORDS,
    SIGN,
    SIGN_INSIDE,
    SPACED_NAME,
    SWITCHED_OFF,
    TEMPLATE,
    TIGHT,
    UPPER_NAME,
    URL,
    UUID,
    VARIABLE,
    VERB,
    WORD,
    WORDS,
    has_safe_name,
    is_placeholder,
)
from interlock.redaction.randomness import (
    case_changes,
    has_odd_capitals,
    is_gibberish,
    is_unlike_identifier,
    kinds,
    looks_random,
)

# The pattern for a line matches one word more, of a line that goes on.
_MAX_WORDS = 6
# A shorter value is a secret only where its name can have no other.
_SHORT = 4


def quoted_value(candidate: SecretCandidate) -> bool:
    """A string literal assigned to a secret's name."""
    candidate = _behind_scheme(candidate)
    value = candidate.value.strip(b"` \t\r\n\f\v")
    is_token = OF_A_TOKEN.search(candidate.said) and not PASSWORD_CONTEXT.search(candidate.said)
    if is_token and word_checks.are_no_token(value, candidate.context):
        return False
    return assigned_value(candidate)


def assigned_value(candidate: SecretCandidate) -> bool:
    """A value assigned to a secret's name: anything but a placeholder, a label or a path."""
    candidate = _behind_scheme(candidate)
    value = candidate.value.strip(b"` \t\r\n\f\v")
    is_short = len(value) < _SHORT and word_checks.is_short(value, candidate.context)
    if is_short or is_placeholder(value) or is_path(value):
        return False
    context = candidate.context
    if has_safe_name(context):
        return False
    if (
        TEMPLATE.fullmatch(value)
        or CODE.match(candidate.value)
        or DOTTED.fullmatch(value)
        or REGEX.fullmatch(value)
        or is_type_in_quotes(value)
        or FOREIGN_LABEL.fullmatch(value)
        or URL.fullmatch(value)
    ):
        return False
    if b" " in value or b"\t" in value:
        return word_checks.are_passphrase(value)
    if value.isdigit():
        return len(value) >= 6 or PASSWORD_NAME.search(context) is not None
    return not WORDS.fullmatch(value) or word_checks.are_secret(value, context)


def _behind_scheme(candidate: SecretCandidate) -> SecretCandidate:
    """The part of a header behind its scheme: `Bearer` and a token."""
    scheme = SCHEME.match(candidate.value)
    if scheme is None or is_type_in_quotes(candidate.value):
        return candidate
    return replace(candidate, begin=candidate.begin + scheme.end())


def bare_value(candidate: SecretCandidate) -> bool:
    """A value without quotes: in code it would be a name, a call or a number."""
    value = candidate.value
    if candidate.text[candidate.end - 1 : candidate.end] in b".:!?" and len(value) < 10:
        value = value.rstrip(b".:!?")
    is_short = len(value) < _SHORT and _is_short(value, candidate.context)
    if is_short or is_placeholder(value) or is_path(value) or DOTTED.fullmatch(value):
        return False
    context = candidate.context
    if has_safe_name(context) or context.rstrip().endswith(b"==") or _is_no_value(value, context):
        return False
    if value.isdigit():
        return len(value) >= 6 and PASSWORD_NAME.search(context) is not None
    if not candidate.is_called and (ENV_NAME.search(context) or IN_DATA.search(context)):
        is_named = word_checks.is_named(value, context) and not CONSTANT.fullmatch(value)
        return is_named or not NAME.fullmatch(value) or is_unlike_identifier(value)
    if word_checks.is_word(value) and candidate.follower in b"\r\n\\,}\"'" and UPPER_NAME.search(context):
        return word_checks.is_named(value, context)
    if is_code(value, candidate) or CONSTANT.fullmatch(value):
        return False
    if b"&" in value:
        return contextual_value(candidate)
    name = value.lstrip(b"!")
    is_name = NAME.fullmatch(value) is not None or IDENTIFIER.fullmatch(name) is not None
    return (
        not is_name
        or (PASSWORD_NAME.search(context) is not None and is_unlike_identifier(name))
        or _is_long(name)
    )


def _is_short(value: bytes, context: bytes) -> bool:
    """A short value without quotes, where a program would have a variable."""
    return not (TIGHT.search(context) and VARIABLE.search(context)) or word_checks.is_short(value, context)


def _is_long(value: bytes) -> bool:
    """A random text that by chance looks like a variable's name."""
    is_motley = len(value) >= 20 and is_gibberish(value) and _has_mixed_case(value)
    return (is_motley or looks_random(value, 20)) and not is_type(value)


def _has_mixed_case(value: bytes) -> bool:
    return case_changes(value) * 4 >= len(value)


def _is_no_value(value: bytes, context: bytes) -> bool:
    """The rest of a shell expansion (`${X:?message}`), or the next field of a log: `auth: user=alice`."""
    if value[:1] in b"?+" and EXPANSION.search(context):
        return True
    return FIELD.fullmatch(value) is not None and not looks_random(value.partition(b"=")[2], 12)


def named_value(candidate: SecretCandidate) -> bool:
    quote = candidate.text[candidate.begin - 1 : candidate.begin]
    if quote not in (b'"', b"'", b"`"):
        return bare_value(candidate)
    # Between backquotes a shell has a command.
    is_command = quote == b"`" and b" " in candidate.value and TIGHT.search(candidate.context[:-1])
    return not is_command and quoted_value(candidate)


def element_text(candidate: SecretCandidate) -> bool:
    """An XML element's text; not a named group in a regular expression, which is written the same way."""
    is_group = candidate.text[max(0, candidate.start - 1) : candidate.start] in (b"?", b"P")
    return not is_group and quoted_value(candidate)


def line_value(candidate: SecretCandidate) -> bool:
    """The rest of a line behind a name. The name decides, unless the line is code or a sentence."""
    value, context = candidate.value, candidate.context
    if len(value) < 3 or is_placeholder(value) or is_path(value) or DOTTED.fullmatch(value):
        return False
    if URL.fullmatch(value) or CALL.fullmatch(value) or SCHEME.match(value):
        return False
    is_alone = value.isalpha() and ALONE.search(context) is not None and not _is_in_code(candidate)
    if has_safe_name(context) or not word_checks.is_named(value, context, is_alone=is_alone):
        return False
    is_variable = ENV_NAME.search(context) is not None
    if b" " in value or b"\t" in value:
        if not PASSPHRASE.fullmatch(value) or COMMAND.fullmatch(value) or SPACED_NAME.search(context):
            return False
        if len(value.split()) > _MAX_WORDS:
            return False
        is_phrase = word_checks.are_passphrase(value) and not SENTENCE_WORDS.search(value)
        return is_variable or (is_phrase and _is_setting(candidate))
    if value.isdigit():
        return len(value) >= 6 or PASSWORD_NAME.search(context) is not None
    return is_variable or (_is_setting(candidate) and _is_literal(value, context, is_alone=is_alone))


def _is_literal(value: bytes, context: bytes, *, is_alone: bool) -> bool:
    """A word that is no variable, constant or type; a password in a settings file is none of them."""
    if WORD.fullmatch(value) is None or (OBJECT_NAME.fullmatch(value) and OBJECT.search(context)):
        return False
    if CAPITALISED.fullmatch(value):
        return is_alone or (UPPER_NAME.search(context) and PASSWORD_NAME.search(context)) is not None
    return not word_checks.is_reference(value)


def _is_setting(candidate: SecretCandidate) -> bool:
    """Whether the line is written as a setting, not as most programs assign a variable, `name = value`."""
    context = candidate.context
    if OF_AN_OBJECT.search(context):
        return False
    if context.rstrip().endswith(b":") or TIGHT.search(context) or UPPER_NAME.search(context):
        return True
    if SECTION.search(candidate.before):
        return True
    is_plain = len(candidate.value) > 3 and word_checks.is_word(candidate.value)
    return is_plain and ASSIGNED.search(context) is not None and not _is_in_code(candidate)


def _is_in_code(candidate: SecretCandidate) -> bool:
    """Whether the lines before it are code."""
    return PROGRAM.search(candidate.before) is not None


def flag_value(candidate: SecretCandidate) -> bool:
    value = candidate.value
    if candidate.text[max(0, candidate.start - 1) : candidate.start] in (b"-", b"\\"):
        # A dash between words--like this, or in the source of a manual.
        return False
    if len(value) < 4 or is_placeholder(value.rstrip(b").,;")) or is_path(value):
        return False
    if _is_off(candidate.context):
        return False
    if value.isdigit():
        return len(value) >= 6
    return FLAG_WORD.fullmatch(value) is None


def _is_off(context: bytes) -> bool:
    return SWITCHED_OFF.search(context) is not None or has_safe_name(context)


def header_value(candidate: SecretCandidate) -> bool:
    value = candidate.value
    if is_placeholder(value) or b"://" in value or candidate.follower in (b"(", b"{", b"<", b"$"):
        return False
    digits, lower, upper, others = kinds(value)
    if SECRET_VARIABLE_NAME.fullmatch(value) or CONSTANT.fullmatch(value):
        return False
    if AFTER_SCHEME.search(candidate.said) and candidate.follower in b"\r\n\\\"'`":
        return digits or not (word_checks.is_status(value) or value.endswith(b"="))
    if len(value) < 8:
        return False
    if IDENTIFIER.fullmatch(value) and not (digits or upper):
        return False
    return digits or (lower and upper and (others or case_changes(value) >= 4)) or len(value) >= 32


def random_value(candidate: SecretCandidate) -> bool:
    if has_safe_name(candidate.context):
        return False
    value = candidate.value
    if UUID.fullmatch(value) or is_placeholder(value):
        return False
    if (value.count(b"/") > 1 or value.count(b"-") > 3) and not _has_mixed_case(value):
        return False
    if candidate.follower == b"." or candidate.is_called or SECRET_VARIABLE_NAME.fullmatch(value):
        return False
    return looks_random(value, 16)


def random_word(candidate: SecretCandidate) -> bool:
    """At least eight characters that no language would combine."""
    value = candidate.value.rstrip(b".,;:!?)'\"")
    if is_placeholder(value) or is_path(value):
        return False
    digits, lower, upper, others = kinds(value)
    if len(value) < 8 or not digits or not (lower or upper):
        if len(value) < 8 or not (lower and upper):
            return False
        is_long = len(value) >= 16 and case_changes(value) * 5 >= len(value) * 2
        return is_long or (has_odd_capitals(value) and is_gibberish(value))
    if PLAIN_WORDS.fullmatch(value) is None or len(re.findall(rb"[A-Za-z]+", value)) * 6 > len(value):
        return True
    return not others and lower and upper


def random_token(candidate: SecretCandidate) -> bool:
    """The same for a token with a known prefix, which may have become the name of a file.

    Only the prefix is certain; the rest may by chance have no digit.
    """
    name, dot, _ = candidate.value.rpartition(b".")
    if dot and is_path(candidate.value):
        return random_token(replace(candidate, end=candidate.begin + len(name)))
    own = candidate.value.partition(b"-")[2]
    return random_word(candidate) or (len(own) >= 16 and (_has_mixed_case(own) or is_gibberish(own)))


def prose_value(candidate: SecretCandidate) -> bool:
    """A word that no sentence has: random, or with a sign or with capitals in the middle of it."""
    value = candidate.value.rstrip(b".,;:!?)'\"")
    if random_word(candidate) or word_checks.are_password(value, candidate.said):
        return True
    _, lower, upper, _ = kinds(value)
    if len(value) < 8 or not (lower and upper) or is_placeholder(value) or is_path(value):
        return False
    return SIGN_INSIDE.search(value) is not None or is_unlike_identifier(value)


def contextual_value(candidate: SecretCandidate) -> bool:
    """A random word where the words around it make a secret likely, but do not prove it."""
    value = candidate.value.rstrip(b".,;:!?)'\"*")
    if candidate.is_called or has_safe_name(candidate.context):
        return False
    if value.startswith(REST_OF_A_MARK) or VERB.search(candidate.context) or FIELD.fullmatch(value):
        return False
    if _is_written(value):
        return False
    _, lower, upper, _ = has = kinds(value)
    if PLAIN_WORDS.fullmatch(value) and not (lower and upper):
        return False
    if lower and upper and _is_odd(value, candidate):
        return not is_placeholder(value)
    return random_word(candidate) and (sum(has) >= 3 or len(value) >= 16)


def _is_written(value: bytes) -> bool:
    """What people write in programs and in prose: a number, a path, a name, several words."""
    if b" " in value or b"\\" in value or b"://" in value:
        return True
    if DOTTED.fullmatch(value) or REGEX.fullmatch(value):
        return True
    if value.count(b"/") > 2 and not is_long_base64(value):
        return True
    names = (IDENTIFIER, CAMEL, NUMBERED_WORDS)
    return any(pattern.fullmatch(value.rstrip(b"(")) for pattern in names) and not is_unlike_identifier(
        value
    )


def _is_odd(value: bytes, candidate: SecretCandidate) -> bool:
    """By its signs and letters, where the text mentions a password or has signs at all."""
    if SIGN.search(value):
        is_quoted = candidate.text[candidate.begin - 1 : candidate.begin] in (b'"', b"'")
        if (
            _has_mixed_case(value)
            or is_unlike_identifier(value)
            or (is_quoted and SIGN_INSIDE.search(value))
        ):
            return True
    return PASSWORD_CONTEXT.search(candidate.said) is not None and is_unlike_identifier(value)


def random_list(candidate: SecretCandidate) -> bool:
    """Whether all items of a list are random; a list of names is not."""
    if candidate.follower in (b"(", b".", b"["):
        return False
    items = [item.strip(b" \t\r\n\"'`") for item in candidate.value.split(b",")]
    return all(looks_random(item, 12) and not is_placeholder(item) and b"://" not in item for item in items)


def lone_word(candidate: SecretCandidate) -> bool:
    """A random word that is not a part of a longer base64 text."""
    before = candidate.text[max(0, candidate.start - 1) : candidate.start]
    return (
        before not in (b"+", b"/", b"-", b"_", b"%")
        and candidate.follower not in (b"+", b"/")
        and random_word(candidate)
    )


def mixed_word(candidate: SecretCandidate) -> bool:
    digits, lower, upper, _ = kinds(candidate.value[2:])
    return digits and lower and upper


def url_password(candidate: SecretCandidate) -> bool:
    value = candidate.value
    if value.isdigit():
        return len(value) > 5
    return not is_placeholder(value) and REGEX.fullmatch(value) is None


def sql_value(candidate: SecretCandidate) -> bool:
    value = candidate.value
    if len(value) < 4 or is_placeholder(value) or b" " in value or CODE.match(value):
        return False
    return (
        candidate.context[-2:-1] != b"("
        or re.search(rb"(?i)password\s*\($", candidate.context[:-1]) is not None
    )


CHECKS: dict[str, Check] = {
    "named-value": named_value,
    "quoted-value": quoted_value,
    "bare-value": bare_value,
    "line-value": line_value,
    "element-text": element_text,
    "flag-value": flag_value,
    "header-value": header_value,
    "random-value": random_value,
    "random-word": random_word,
    "random-token": random_token,
    "said-value": prose_value,
    "told-value": contextual_value,
    "random-list": random_list,
    "lone-word": lone_word,
    "mixed-word": mixed_word,
    "url-password": url_password,
    "basic-credentials": basic_credentials,
    "url-in-base64": url_in_base64,
    "sql-value": sql_value,
    "web-token": web_token,
    "key-block": key_block,
}
