"""Words where a secret would stand: some are a password, some only talk about one."""

from interlock.redaction.harmless import (
    LABEL_WORDS,
    MESSAGE_KEY,
    NO_PASSWORD,
    NUMBERED_WORDS,
    OF_A_TOKEN,
    PASSWORD_NAME,
    PHRASE,
    SCHEME,
    SPEAKS_OF_ONE,
    WORDS,
    WORDS_AND_NUMBER,
    is_placeholder,
)
from interlock.redaction.randomness import case_changes, is_no_name

# What may stand around a word in a text that a program reads word by word.
_SIGNS = b"'\"`{}()[]<>|/\\,.;:!?*#@-_"


def are_no_token(value: bytes, said: bytes) -> bool:
    """Behind the name of a token, or the scheme of a header: `Bearer test_token`, `stream_tok_2`."""
    if SCHEME.match(value):
        value = value.partition(b" ")[2].strip()
    elif not OF_A_TOKEN.search(said) or SPEAKS_OF_ONE.search(said):
        return False
    core = value.strip(_SIGNS)
    if is_placeholder(value) or not core:
        return True
    are_words = WORDS.fullmatch(core) is not None or NUMBERED_WORDS.fullmatch(core) is not None
    return are_words and not is_no_name(core) and not _are_motley(core)


def are_secret(value: bytes, context: bytes) -> bool:
    """A password may consist of words, a token does not, and the key of a message is no secret."""
    if _are_motley(value) or (value.count(b".") < 2 and is_no_name(value)):
        return True
    return PASSWORD_NAME.search(context) is not None and not MESSAGE_KEY.search(value)


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
