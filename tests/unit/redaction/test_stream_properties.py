"""Whatever a text is made of and wherever it is cut, a stream shows what the whole text would."""

from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.redaction.redactor import MARK, Redactor
from interlock.redaction.rule_loader import load_rule_sources
from interlock.redaction.stream import MAX_HELD
from tests.unit.redaction.case_file import cases, fed
from tests.unit.redaction.test_named_values import TABLE

REDACTOR = Redactor(["known-value-42", "naïve-密碼-7"])
EXAMPLES = [
    *("".join(pieces) for rule in load_rule_sources() for pieces in rule.must),
    *(text for rule in load_rule_sources() for text in rule.must_not),
    *(case.text for case in cases()),
    *(text for text, _ in TABLE),
    "known-value-42",
    "naïve-密碼-7",
]
GLUE = [
    *(
        " ",
        "\n",
        '"',
        "'",
        "\\",
        '\\"',
        "=",
        ": ",
        "`",
        "|",
        ", ",
        "{",
        "}",
        "<",
        ">",
        "$",
        "-",
        "--",
        " -p",
    ),
    *(
        "/",
        "://",
        "@",
        "password",
        "token",
        "api_key=",
        "密码：",
        "é",
        "\ud800",
        "\udcff",
        "😀",
        "\t",
        "\r\n",
    ),
    *("AKIA", "sk-", "eyJ", ".", "0", "X9z", "is ", "value", "name: ", "-----BEGIN PRIVATE KEY-----"),
    *("-----END", "echo '", "| passwd", "auth=(", "IDENTIFIED BY '", "\0", MARK),
]


@st.composite
def parts_of_examples(draw) -> str:
    text = draw(st.sampled_from(EXAMPLES))
    start = draw(st.integers(0, len(text)))
    return text[start : draw(st.integers(start, len(text)))]


anything = st.text(st.characters(codec=None), max_size=12)
texts = st.lists(
    st.one_of(st.sampled_from(EXAMPLES), parts_of_examples(), st.sampled_from(GLUE), anything), max_size=8
).map("".join)
apart = st.lists(st.one_of(st.sampled_from(EXAMPLES), anything), max_size=6).map("\n\n".join)


@st.composite
def cut_texts(draw) -> tuple[str, list[str]]:
    text = draw(texts)
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=10)))
    return text, [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


@settings(max_examples=400)
@given(cut_texts())
def test_any_cuts_give_what_the_whole_text_gives(cut):
    text, pieces = cut
    assert fed(REDACTOR, *pieces) == REDACTOR.text(text)


@settings(max_examples=60)
@given(texts)
def test_single_characters_give_what_the_whole_text_gives(text):
    assert fed(REDACTOR, *text) == REDACTOR.text(text)


@given(cut_texts())
def test_a_stream_says_whether_it_changed_anything_and_holds_no_more_than_came(cut):
    text, pieces = cut
    stream, came, left = REDACTOR.stream(), 0, []
    for piece in pieces:
        left.append(stream.feed(piece))
        came += len(piece.encode("utf-8", "surrogatepass"))
        assert stream.held <= min(came, MAX_HELD)
    left.append(stream.finish())
    assert stream.held == 0
    assert stream.changed == bool(REDACTOR.spans(text))


@settings(max_examples=300)
@given(texts)
def test_spans_and_text_agree_and_nothing_outside_them_changes(text):
    spans = REDACTOR.spans(text)
    expected, position = [], 0
    for start, end in spans:
        assert position <= start < end <= len(text)
        expected += [text[position:start], MARK]
        position = end
    assert "".join([*expected, text[position:]]) == REDACTOR.text(text)


@given(apart)
def test_a_text_that_was_redacted_stays_as_it_is(text):
    once = REDACTOR.text(text)
    assert REDACTOR.text(once) == once


@given(st.text(st.characters(categories=["Lo", "So", "Mn", "Cs"]), max_size=60))
def test_other_scripts_and_lone_surrogates_come_through(text):
    assert REDACTOR.text(text) == text
    assert fed(REDACTOR, *text) == text


def test_spans_count_characters_and_not_bytes():
    secret = "known-value-42"
    text = f"密码😀é {secret} \ud800 {secret}"
    assert [text[start:end] for start, end in REDACTOR.spans(text)] == [secret, secret]


@settings(max_examples=60)
@given(st.data())
def test_a_long_text_gives_the_same_where_candidates_failed_and_blocks_end(data):
    filler = st.sampled_from(
        ["a word ", "return foo(bar)\n", "password 'that is none, ", "x" * 50, "token: "]
    )
    parts = st.tuples(texts, filler, st.integers(0, 60)).map(lambda part: part[0] + part[1] * part[2])
    text = "".join(data.draw(st.lists(parts, min_size=20, max_size=40)))
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)))
    pieces = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    assert fed(REDACTOR, *pieces) == REDACTOR.text(text)


def test_a_cut_inside_a_long_candidate_that_failed_changes_nothing():
    text = (
        f"password '{'that is none, ' * 30}' IDENTIFIED BY '.ghp_x%s:%s' then password 'k3jd92mzxQ81' end"
    )
    whole = REDACTOR.text(text)
    for cut in range(len(text)):
        assert fed(REDACTOR, text[:cut], text[cut:]) == whole


def test_what_a_rejected_match_holds_back_is_bounded():
    stream = REDACTOR.stream()
    for _ in range(64):
        stream.feed("password=" * 455)
        assert stream.held <= MAX_HELD + MAX_HELD // 8
