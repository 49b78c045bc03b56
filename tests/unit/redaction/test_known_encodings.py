"""A known key is found in what real programs print of it, whole and streamed; the list says where not."""

import random
import shutil
import string
import subprocess
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.redaction.redactor import MARK, Redactor
from tests.harness.case_tables import each_row
from tests.unit.redaction.case_file import fed

KEY = "il-7Qx9/fLm+Zt2_Vb8.Nc4=Hd6kPw3RsYj1uE5g"
# At its edges a character may mix with its neighbours.
AT_THE_EDGES = 4
# Keys to compare with.
OTHERS = 3

FOUND = {
    "as it is": "cat",
    "xxd": "xxd",
    "xxd, plain": "xxd -p",
    "xxd, upper case, narrow": "xxd -u -c 8",
    "xxd, byte by byte": "xxd -g 1",
    "xxd, wide": "xxd -c 32",
    "xxd, as an array of C": "xxd -i",
    "xxd, last byte first": "xxd -e",
    "od -c": "od -c",
    "od -x": "od -x",
    "od, words in octal": "od",
    "od, bytes in octal": "od -b",
    "od -An -tx1": "od -An -tx1",
    "od -tx1z, decimal addresses": "od -A d -t x1z",
    "od, bytes in decimal": "od -An -tu1 -w8",
    "od, words of four bytes": "od -An -tx4",
    "hexdump": "hexdump",
    "hexdump -C": "hexdump -C",
    "hexdump -c": "hexdump -c",
    "hex with colons": "hexdump -ve '1/1 \"%02x:\"'",
    "base64": "base64",
    "base64 in one line": "base64 -w 0",
    "base64 in short lines": "base64 -w 20",
    "base64, one byte later": "(printf x; cat) | base64",
    "base64, two bytes later": "(printf xy; cat) | base64",
    "url-safe base64": "basenc --base64url",
    "base64 in a URL": "base64 -w 0 | jq -Rr @uri",
    "base32": "base32",
    "base32, three bytes later": "(printf xyz; cat) | base32",
    "openssl": "openssl base64",
    "fold": "fold -w 10",
    "fold, one character a line": "fold -w 1",
    "fold, numbered by cat": "fold -w 16 | cat -n",
    "fold, numbered by nl": "fold -w 16 | nl",
    "fold, numbered by grep": "fold -w 16 | grep -n ''",
    "fold, ends shown": "fold -w 12 | cat -A",
    "a diff": "diff /dev/null <(fold -w 12)",
    "a quotation": "fold -w 12 | sed 's/^/> /'",
    "lines that sed breaks": "sed -n 'l 20'",
    "letters apart": "sed 's/./& /g'",
    "reversed": "rev",
    "in capitals": "tr a-z A-Z",
    "UTF-16": "iconv -t UTF-16LE",
    "UTF-16 in hex": "iconv -t UTF-16LE | xxd -p",
    "UTF-16 in a dump": "iconv -t UTF-16LE | hexdump -C",
    "UTF-16 in base64": "iconv -t UTF-16LE | base64",
    "JSON": "jq -Rs .",
    "JSON in JSON": "jq -Rs 'tojson | tojson'",
    "escapes of JSON": r"""perl -pe 's/(.)/sprintf("\\u%04x", ord $1)/ge'""",
    "a wrapped text in JSON": "fold -w 12 | jq -Rs .",
    "a URL": "jq -sRr @uri",
    "a URL, escaped twice": "jq -sRr '@uri | @uri'",
    "a URL, every second character escaped": """perl -pe 's/(.)(.)/sprintf("%%%02x%s", ord $1, $2)/ge'""",
    "a form": "python3 -c 'import sys, urllib.parse as p; print(p.urlencode({\"q\": sys.stdin.read()}))'",
    "quoted-printable": "python3 -m quopri -t | fold -w 30 | sed 's/$/=/'",
    "quoted-printable, soft breaks": "(printf %050d 0; cat) | python3 -m quopri",
    "HTML": "python3 -c 'import sys, html; print(html.escape(sys.stdin.read()))'",
    "HTML, decimal": """perl -pe 's/(.)/sprintf("&#%d;", ord $1)/ge'""",
    "HTML, hexadecimal": """perl -pe 's/(.)/sprintf("&#x%x;", ord $1)/ge'""",
    r"\x": r"""perl -pe 's/(.)/sprintf("\\x%02x", ord $1)/ge'""",
    r"\ooo": r"""perl -pe 's/(.)/sprintf("\\%03o", ord $1)/ge'""",
    "a shell's quotes": "jq -Rsr @sh",
    "printf %q": "bash -c 'printf %q \"$(cat)\"'",
    "a list of Python": "python3 -c 'import sys; print(list(sys.stdin.buffer.read()))'",
    "a buffer of JavaScript": (
        "python3 -c 'import sys, json; print(json.dumps({\"data\": [*sys.stdin.buffer.read()]}))'"
    ),
    "coloured by grep": "grep --color=always '[0-9]'",
    "zero-width spaces": r"""perl -CS -pe 's/(....)/$1\x{200b}/g'""",
}
AROUND = ["", " ", "\n", "\n  ", "6b ", "00000020: ", "password: ", "\\", "%", "=\n", "\x1b[", KEY, KEY[:9]]
# Each with the reason.
NOT_FOUND = {
    "compressed": ("gzip -c | base64", "depends on all of the text"),
    "base64 of base64": (
        "base64 -w 0 | base64",
        "nine more forms of each value, for a form that no program prints",
    ),
    "binary digits": ("xxd -b", "eight characters for each bit of it; no one reads secrets so"),
    "rot13": ("tr A-Za-z N-ZA-Mn-za-m", "a cipher; one of many"),
    "words in decimal": ("hexdump -d", "the value of a word depends on where the key begins"),
    "base85": ("python3 -c 'import sys, base64; print(base64.b85encode(sys.stdin.buffer.read()))'", "rare"),
    "uuencode": ('perl -e \'print pack("u", join("", <>))\'', "rare"),
}


@cache
def printed(command: str, key: str) -> str:
    program = command.split(maxsplit=1)[0]
    if shutil.which(program) is None and "(" not in program:
        pytest.skip(f"there is no {program}")
    text = f"user=app\nkey: {key} end\n"
    result = subprocess.run(["bash", "-c", command], input=text.encode(), capture_output=True, check=False)
    assert result.returncode in {0, 1}, result.stderr
    return result.stdout.decode("utf-8", "replace")


def others() -> list[str]:
    """Keys of the same form: where the output differs, it depends on the key."""
    chance = random.Random(4)
    # Letters with numbers of two digits, and of three.
    kinds = ("abc", "defghijklmnopqrstuvwxyz", string.ascii_uppercase, string.digits)
    return [
        "".join(chance.choice(next((kind for kind in kinds if sign in kind), sign)) for sign in KEY)
        for _ in range(OTHERS)
    ]


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor([KEY])


@each_row("command", FOUND.values())
def test_nothing_that_depends_on_the_key_is_shown(redactor, command):
    text = printed(command, KEY)
    differs = {
        at
        for other in others()
        for at, signs in enumerate(zip(text, printed(command, other), strict=False))
        if len(set(signs)) > 1
    }
    assert differs
    hidden = {at for begin, end in redactor.spans(text) for at in range(begin, end)}
    assert len(differs - hidden) <= AT_THE_EDGES, redactor.text(text)


@each_row("command", FOUND.values())
def test_a_stream_shows_the_same(redactor, command):
    text = printed(command, KEY)
    whole = redactor.text(text)
    assert MARK in whole
    assert fed(redactor, *text) == whole
    for size in (3, 7, 16, 61):
        assert fed(redactor, *(text[at : at + size] for at in range(0, len(text), size))) == whole


@st.composite
def cut_texts(draw) -> tuple[str, list[str]]:
    """Parts of what is printed and of ordinary text, cut anywhere."""
    text = ""
    for _ in range(draw(st.integers(1, 4))):
        part = printed(draw(st.sampled_from(list(FOUND.values()))), KEY)
        start = draw(st.integers(0, len(part)))
        text += part[start : draw(st.integers(start, len(part)))] + draw(st.sampled_from(AROUND))
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    return text, [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


@settings(max_examples=200)
@given(cut_texts())
def test_any_part_of_it_cut_anywhere_gives_what_the_whole_text_gives(cut):
    text, pieces = cut
    redactor = Redactor([KEY])
    assert fed(redactor, *pieces) == redactor.text(text)


@each_row("command", FOUND.values())
def test_the_same_without_the_key_stays(command):
    text = printed(command, KEY)
    assert Redactor([others()[0]], rules=()).text(text) == text


@each_row(("command", "reason"), list(NOT_FOUND.values()))
def test_what_is_not_found_is_listed_with_the_reason(redactor, command, reason):
    assert reason
    assert MARK not in redactor.text(printed(command, KEY))


def test_most_are_found():
    assert len(FOUND) >= 0.9 * (len(FOUND) + len(NOT_FOUND))
