"""Values that nobody sends on purpose, and documents and bytes that have one of them somewhere."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st


class Raw(str):
    """JSON as it is written, for what no value stands for."""

    __slots__ = ()


DEEP = 1000
RAWS = tuple(
    map(
        Raw,
        [
            *("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "-0", "1" * 5000, "0." + "3" * 5000),
            *("18446744073709551615", "9223372036854775808", "-9223372036854775809", "1e308"),
            *('"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"', '"\\', '"\ufeff"', "'x'", "tru", "", "/**/1"),
            "[" * DEEP + "]" * DEEP,
            '{"a":' * DEEP + "1" + "}" * DEEP,
            "[" * 200 + "]" * 200,
            "[" * 100_000,
            '{"a":1,"a":2}',
        ],
    )
)
WORDS = (
    *("", " ", "\x00", "a\x00b", "\n", "\r\n", "\x1b[2J", "\u202e", "\ufeff", "\U0001f600", "e\u0301"),
    *(
        "{}",
        "[]",
        "null",
        "stop",
        "429",
        "500",
        "../..",
        "/etc/passwd",
        "x" * 5000,
        "'; --",
        "%s%n",
        "${HOME}",
    ),
)
NUMBERS = (0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.5, -1e308, 5e-324)

SCALARS = st.one_of(
    st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(WORDS), st.text(max_size=12)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(WORDS[:14]), inner, max_size=3)
    ),
    max_leaves=6,
)
# What JSON can say, and what it cannot.
ANYTHING = st.one_of(VALUES, st.sampled_from(RAWS))

Path = tuple[str | int, ...]


def written(value: Any) -> bytes:
    """JSON, and where there is something raw, that."""
    return _text(value).encode("utf-8", "surrogatepass")


def _text(value: Any) -> str:
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def places(document: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    items = document.items() if isinstance(document, dict) else ()
    for key, inner in enumerate(document) if isinstance(document, list) else items:
        yield from places(inner, (*path, key))


@st.composite
def spoiled(draw: st.DrawFn, document: Any, values: st.SearchStrategy[Any] = ANYTHING) -> Any:
    """The document with one to three places changed, gone, or there twice."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places(document))))
        if not path:
            if draw(st.integers(0, 9)) == 0:
                return draw(values)
            continue
        *outer, last = path
        holder = document
        for step in outer:
            holder = holder[step]
        what = draw(st.sampled_from(["value", "value", "value", "gone", "more"]))
        if what == "gone":
            del holder[last]
        elif what == "more" and isinstance(holder, list):
            holder.insert(int(last), draw(values))
        elif what == "more":
            holder[draw(st.sampled_from(WORDS))] = draw(values)
        else:
            holder[last] = draw(values)
    return document


BITS = (
    *(b"\x00", b"\r", b"\n", b"\r\n", b"\n\n", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\\"),
    *(
        b'"',
        b"'",
        b'"""',
        b"'''",
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b",",
        b"=",
        b"#",
        b"---",
        b"data:",
        b" " * 300,
    ),
    *(
        b"\t",
        b"\x1b[",
        b"\x7f",
        b"\xe2\x80\xa8",
        b"[" * 2000,
        b"9" * 5000,
        b"-",
        b".",
        b"0x",
        b"<!--",
        b"data:",
    ),
)


@st.composite
def torn(draw: st.DrawFn, data: bytes, most: int = 4) -> bytes:
    """The bytes with pieces taken out, put in, doubled or moved, and perhaps cut off."""
    for _ in range(draw(st.integers(1, most))):
        begin = draw(st.integers(0, len(data)))
        end = min(len(data), begin + draw(st.sampled_from([0, 1, 1, 2, 5, 20, 200])))
        what = draw(st.sampled_from(["out", "in", "in", "any", "double", "cut"]))
        if what == "out":
            data = data[:begin] + data[end:]
        elif what == "in":
            data = data[:begin] + draw(st.sampled_from(BITS)) + data[end:]
        elif what == "any":
            data = data[:begin] + draw(st.binary(max_size=6)) + data[end:]
        elif what == "double":
            data = data[:end] + data[begin:]
        else:
            data = data[:begin]
    return data


@st.composite
def shuffled_lines(draw: st.DrawFn, data: bytes) -> bytes:
    """The lines left out, said twice, or in another order."""
    lines = data.split(b"\n")
    picked = draw(st.lists(st.integers(0, len(lines) - 1), max_size=len(lines) + 3))
    kept = [lines[number] for number in picked]
    return b"\n".join(draw(st.sampled_from([kept, lines + kept, sorted(kept), lines[: len(kept)] + kept])))


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    """In pieces, at these places; none is empty."""
    ends = sorted({place % (len(data) + 1) for place in cuts} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False) if start < end]
