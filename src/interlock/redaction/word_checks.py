"""Judges words in the place of a secret: some are a password, some only mention one."""

from interlock.redaction.code_heuristics import is_type
from interlock.redaction.non_secrets import (
    ABOUT_A_SECRET,
    CONSTANT,
    IDENTIFIER,
    KEBAB_NAME,
    KIND_OF_TOKEN,
    LABEL_WORDS,
    LOWER_CAMEL,
    MESSAGE_KEY,
    NO_PASSWORD,
    NOT_A_VALUE,
    NUMBERED_WORDS,
    PASSWORD_NAME,
    PHRASE,
    SECRET_VARIABLE_NAME,
    STATUS,
    TOKEN_NAME,
    VALUE_NAME,
    VARIABLE,
    WORDS,
    WORDS_AND_NUMBER,
    is_placeholder,
)
from interlock.redaction.randomness import case_changes, is_unlike_identifier

# Signs around a word in a text that a program reads word by word.
_SIGNS = b"'\"`{}()[]<>|/\\,.;:!?*#@-_"
_QUOTES = (b'"', b"'", b"`")
# A shorter word under the name `token` may be a word of a language that a program reads.
_MIN_TOKEN = 8
_MIN_TOKEN_ALONE = 6
# A single character is a switch or a variable.
_MIN_NAMED, _MIN_DIGITS = 2, 3
# How far before a value a comparison operator may be.
_COMPARED = 8


def are_no_token(value: bytes, context: bytes) -> bool:
    """What a parser or a test calls a token: `test_token`, `stream_tok_2`. Single words are not judged."""
    core = value.strip(_SIGNS)
    if is_placeholder(value) or not core:
        return True
    are_words = WORDS.fullmatch(core) is not None or NUMBERED_WORDS.fullmatch(core) is not None
    if value.isalpha() or not are_words or is_unlike_identifier(core) or _are_motley(core):
        return False
    if KIND_OF_TOKEN.fullmatch(value) or MESSAGE_KEY.search(value):
        return True
    return is_reference(value) or VALUE_NAME.search(context) is None


def are_secret(value: bytes, context: bytes) -> bool:
    """Whether words in quotes are the value of the name before them, and not a label for it."""
    if _are_motley(value) or (value.count(b".") < 2 and is_unlike_identifier(value)):
        return True
    if not is_word(value) and MESSAGE_KEY.search(value):
        return False
    if PASSWORD_NAME.search(context):
        return not ABOUT_A_SECRET.search(context) and not _is_said(value, context)
    return is_named(value, context) and not is_reference(value)


def is_named(value: bytes, context: bytes, *, is_alone: bool = False) -> bool:
    """Whether the name decides that the word behind it is secret."""
    if ABOUT_A_SECRET.search(context) or _is_said(value, context, is_alone=is_alone):
        return False
    if not TOKEN_NAME.search(context):
        return VALUE_NAME.search(context) is not None
    if b"==" in context[-_COMPARED:]:
        return False
    if VALUE_NAME.search(context):
        return True
    least = _MIN_TOKEN_ALONE if is_alone else _MIN_TOKEN
    return is_word(value) and len(value) >= least and not KIND_OF_TOKEN.fullmatch(value)


def _is_said(value: bytes, context: bytes, *, is_alone: bool = False) -> bool:
    """A word about a secret or for a variable that holds one, where the form allows it."""
    if not is_status(value):
        is_literal = is_alone or context.endswith(_QUOTES)
        if is_literal or value.lower() not in NOT_A_VALUE:
            return False
    return VARIABLE.search(context) is None


def is_status(value: bytes) -> bool:
    return all(word in STATUS for word in value.lower().split())


def is_short(value: bytes, context: bytes) -> bool:
    """Whether a value of two or three characters is no secret, since its name may have others."""
    least = _MIN_DIGITS if value.isdigit() else _MIN_NAMED
    if not value.isalnum() or len(value) < least or b"==" in context[-_COMPARED:]:
        return True
    return VALUE_NAME.search(context) is None


def is_word(value: bytes) -> bool:
    return value.isalpha() and value.islower()


def is_reference(value: bytes) -> bool:
    """The name of a variable, a constant or a type."""
    names = (SECRET_VARIABLE_NAME, CONSTANT, IDENTIFIER, LOWER_CAMEL, KEBAB_NAME)
    return is_type(value.lstrip(b"_")) or any(pattern.fullmatch(value) for pattern in names)


def are_passphrase(value: bytes) -> bool:
    """Words of a passphrase rather than of a sentence."""
    if LABEL_WORDS.search(value) or value[-1:] in b".!?:":
        return False
    return not PHRASE.fullmatch(value)


def are_password(value: bytes, said: bytes) -> bool:
    """Words and a number, which a password may be and a token is not."""
    return WORDS_AND_NUMBER.fullmatch(value) is not None and NO_PASSWORD.search(said) is None


def _are_motley(value: bytes) -> bool:
    return case_changes(value) * 5 >= len(value) * 2
