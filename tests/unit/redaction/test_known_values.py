"""What the process knows to be secret does not pass in any form that programs give it."""

import base64
import html
import json
import re
import textwrap
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.redaction.redactor import MARK, Redactor
from tests.harness.case_tables import each_row
from tests.unit.redaction.case_file import fed

VALUES = ["otter lamp/7+violin=", 'a"b\\c9&d<é>', "密碼-naïve-42", "x" * 5 + "y2", "k3jd92mz" * 12]
FORMS = {
    "plain": str,
    "json": lambda value: json.dumps(value)[1:-1],
    "json, not escaped": lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
    "json in json": lambda value: json.dumps(json.dumps(value)[1:-1])[1:-1],
    "url": lambda value: quote(value, safe=""),
    "url, lower case": lambda value: re.sub("%..", lambda sign: sign[0].lower(), quote(value, safe="")),
    "url path": quote,
    "form": quote_plus,
    "html": html.escape,
    "hex": lambda value: value.encode().hex(),
    "HEX": lambda value: value.encode().hex().upper(),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 behind one": lambda value: base64.b64encode(b":" + value.encode() + b"\n").decode(),
    "base64 behind two": lambda value: base64.b64encode(b"u:" + value.encode() + b"\n").decode(),
    "url-safe base64": lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    "url-safe behind one": lambda value: base64.urlsafe_b64encode(b":" + value.encode()).decode(),
    "upper case": lambda value: value.upper(),
    "UTF-16 in hex": lambda value: value.encode("utf-16-le").hex(),
    "UTF-16 in base64": lambda value: base64.b64encode(value.encode("utf-16-le")).decode(),
    "a command for PowerShell": lambda value: base64.b64encode(f"x {value}".encode("utf-16-le")).decode(),
    "url-safe behind two": lambda value: base64.urlsafe_b64encode(b"u:" + value.encode()).decode(),
}


@each_row("value", VALUES)
@each_row("form", FORMS, ids=str)
def test_every_form_is_taken_out_whole_and_in_pieces(value, form):
    redactor = Redactor([value], rules=())
    written = FORMS[form](value)
    text = f"before {written} after"
    shown = redactor.text(text)
    assert MARK in shown
    # At the edges of base64 a character mixes with its neighbours.
    assert not any(written[start : start + 8] in shown for start in range(max(1, len(written) - 7)))
    for cut in range(len(text)):
        assert fed(redactor, text[:cut], text[cut:]) == shown
    assert fed(redactor, *text) == shown


@pytest.mark.parametrize("width", [64, 76])
def test_base64_of_a_long_value_is_found_over_line_ends(width):
    value = "k3jd92mz-otter-" * 12
    encoded = base64.b64encode(b"prefix " + value.encode() + b" suffix").decode()
    for end in ("\n", "\r\n"):
        text = end.join(textwrap.wrap(encoded, width))
        shown = Redactor([value], rules=()).text(text)
        inner = text.split(end)[1:-1]
        assert inner
        assert not any(line in shown for line in inner)


@given(st.binary(max_size=7), st.binary(max_size=7))
def test_base64_at_any_offset_is_found(before, after):
    secret = "correct-horse-battery"
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        assert MARK in Redactor([secret], rules=()).text(encode(before + secret.encode() + after).decode())


def test_values_that_overlap_or_contain_one_another_leave_nothing():
    redactor = Redactor(["alpha-beta", "beta-gamma", "alpha-beta-gamma-delta"], rules=())
    assert redactor.text("alpha-beta-gamma") == MARK
    assert redactor.text("alpha-beta-gamma-delta") == MARK
    assert redactor.text("alpha-betabeta-gamma") == MARK * 2
    assert fed(redactor, *"x alpha-beta-gamma y") == f"x {MARK} y"


def test_a_known_value_is_found_inside_a_url_a_word_and_a_number():
    redactor = Redactor(["tiger-lily", "90210777"])
    assert redactor.text("http://x.test/tiger-lily?a=1") == f"http://x.test/{MARK}?a=1"
    assert redactor.text("http://bob:tiger-lily@x.test/") == f"http://bob:{MARK}@x.test/"
    assert redactor.text("atiger-lilyz 190210777.5") == f"a{MARK}z 1{MARK}.5"


@pytest.mark.parametrize("value", ["", "a", "abcde", "密码"])
def test_a_value_of_fewer_than_six_characters_is_no_rule(value):
    assert Redactor([value], rules=()).text("abcde 密码 a") == "abcde 密码 a"


@given(st.text(min_size=6, max_size=30), st.text(max_size=10))
def test_any_value_is_found_wherever_the_stream_is_cut(value, around):
    redactor = Redactor([value], rules=())
    text = f"{around} {value} {around}"
    shown = redactor.text(text)
    assert MARK in shown
    assert fed(redactor, *text) == shown


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_known_value_is_found_in_utf_16_that_was_read_as_utf_8(encoding):
    redactor = Redactor(["k3jd92mz-Otter"], rules=())
    text = "a k3jd92mz-Otter b".encode(encoding).decode("utf-8", "replace")
    shown = redactor.text(text)
    assert "3\0j" not in shown
    assert "a" in shown
    assert fed(redactor, *text) == shown
    assert MARK in redactor.text(json.dumps(text))
    assert MARK in redactor.text(repr(text))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
def test_utf_16_in_base64_and_hex_is_found_in_either_order_of_bytes(encoding, before):
    redactor = Redactor(["k3jd92mz-Otter"], rules=())
    wide = f"{before}k3jd92mz-Otter;".encode(encoding)
    for written in (base64.b64encode(wide).decode(), base64.b64encode(b"x" + wide).decode(), wide.hex()):
        assert MARK in redactor.text(written)


def test_a_long_value_is_known_in_time_and_taken_out_to_its_end():
    value = "k3jd92mzxQ81aaPz" * 200
    redactor = Redactor([value], rules=())
    for written in (value, base64.b64encode(b"a:" + value.encode()).decode(), value.encode().hex()):
        assert len(fed(redactor, f"before {written[:90]}", f"{written[90:]} after")) < 60


def test_a_known_value_is_found_in_other_case_unless_it_is_a_word():
    redactor = Redactor(["K3jd92mz-Otter", "Production"], rules=())
    assert redactor.text("http://k3jd92mz-otter.x.test K3JD92MZ-OTTER") == f"http://{MARK}.x.test {MARK}"
    assert redactor.text("in production, PRODUCTION, Production") == f"in production, PRODUCTION, {MARK}"


QUOTED = "Tz7#kq/Lw+9 p@Rm&v\"x'Q=2"


@pytest.mark.parametrize(
    "form",
    [
        QUOTED.replace("'", "'\\''"),
        QUOTED.replace("'", "'\"'\"'"),
        QUOTED.replace("'", "''"),
        QUOTED.replace('"', '""'),
        "Tz7\\#kq/Lw+9\\ p@Rm\\&v\\\"x\\'Q=2",
        quote(quote(QUOTED, safe=""), safe=""),
        html.escape(QUOTED, quote=False),
        html.escape(QUOTED).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
        html.escape(QUOTED).replace("&#x27;", "&apos;"),
    ],
)
def test_a_known_value_is_found_as_programs_quote_it(form):
    redacted = Redactor([QUOTED]).text(f"before {form} after")
    assert redacted == f"before {MARK} after"
