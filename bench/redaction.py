"""Redaction: how well it finds, how fast it is, what a streamed piece costs and what hostile text does.

Beside it stand two peers from the registry, the same rules one after another with Python's `re`, and a
plain copy. A rate is of processor time. Two tables of their own are printed before the rows.
"""

import base64
import random
import re
import statistics
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from pydoc_data.topics import topics

from bench import variety
from bench.duties import Duty
from bench.environments import ROOT
from bench.peers_redaction import peers_at_hand
from bench.redaction_cases import read_cases, scores, streamed
from bench.rows import Row, interleaved
from interlock.redaction.candidate import LOOKS_BACK, SecretCandidate
from interlock.redaction.redactor import MARK, Redactor
from interlock.redaction.rule_loader import RedactionRule, load_builtin_rules, load_rule_sources

ROUNDS, DELTA_ROUNDS, GROWTH_ROUNDS = 7, 25, 3
MEGABYTE, PIECE, FOR_RE = 1 << 20, 64 * 1024, 128 * 1024
FOR_PEERS, PEER_FILE = 128 * 1024, 8 * 1024
DELTAS = 10_000
SIZES = (64 * 1024, 256 * 1024, 1024 * 1024)
DELTA_SIZES = (4 * 1024, 16 * 1024, 64 * 1024)
MEGABYTES_A_SECOND = 80.0
RECALL_PERCENT, ALARM_PERCENT, TIMES_RE, DELTA_MICROSECONDS, GROWTH = 97.0, 1.0, 40.0, 3.0, 1.5
# A rejected candidate up to this long is looked into again, as Interlock does it.
REJECTED = 256

# ruff: noqa: RUF001 - Chinese has commas of its own
CHINESE = (
    "今天早上下了一场小雨，街道上的行人不多。",
    "他把昨天写好的报告又读了一遍，觉得还需要补充几个例子。",
    "这个函数先读取配置文件，然后逐行检查其中的内容。",
    "我们建议先在测试环境里运行一次，确认没有问题之后再更新。",
    "图书馆每天八点开门，周末会稍微晚一些。",
    "如果程序没有响应，请查看日志并把错误信息告诉我们。",
    "她喜欢在傍晚沿着河边散步，听一听风吹过树叶的声音。",
    "会议改到了星期三下午，地点仍然是二楼的会议室。",
)
# With English words, and characters that words for secrets begin with.
MIXED = (
    "请先安装 Python 3.11，然后运行 make test 命令。",
    "这个城市的人口有两百万，出口贸易发展得很快。",
    "访问 https://example.test/docs 可以看到全部说明。",
    "Redactor 会把密码和令牌换成一个标记，其余的文字不变。",
)


def source_code() -> str:
    """The standard library's own, as far as it goes."""
    folder = Path(sysconfig.get_path("stdlib"))
    return "".join(path.read_text("utf-8") for path in sorted(folder.glob("*.py")))[:MEGABYTE]


def prose() -> str:
    """The language's handbook."""
    return filled("\n".join(topics[name] for name in sorted(topics)), MEGABYTE)


def chinese_prose(*more: str) -> str:
    chance = random.Random(5)
    return "".join(chance.choices((*CHINESE, *more), k=DELTAS // 2))


def lock_files() -> str:
    """Half as pip has them and half as npm does."""
    chance = random.Random(6)
    npm = "".join(
        f'    "node_modules/package-{number}": {{\n      "version": "{number % 9}.{number % 7}.1",\n'
        f'      "resolved": "https://registry.example.test/package-{number}/-/package-{number}-1.0.1.tgz",\n'
        f'      "integrity": "sha512-{base64.b64encode(chance.randbytes(64)).decode()}",\n    }},\n'
        for number in range(2000)
    )
    pip = (ROOT / "requirements-dev.lock").read_text("utf-8")
    return filled(pip, MEGABYTE // 2) + filled(npm, MEGABYTE // 2)


def base64_text() -> str:
    chance = random.Random(8)
    return base64.encodebytes(chance.randbytes(MEGABYTE)).decode()[:MEGABYTE]


def filled(text: str, size: int) -> str:
    return (text * (size // len(text) + 1))[:size]


def rate(size: int, work: Callable[[], object]) -> Callable[[], float]:
    """Measures megabytes in a second of processor time."""

    def measured() -> float:
        began = time.process_time()
        work()
        return size / (time.process_time() - began) / 1e6

    return measured


def pieces_of(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


class InTurn:
    """The same rules and the same checks, one rule after another, with Python's `re`."""

    def __init__(self) -> None:
        self._rules = [
            (
                rule,
                re.compile(rule.pattern.encode()),
                re.compile(rule.after.encode()) if rule.after else None,
            )
            for rule in load_builtin_rules()
        ]

    def find(self, data: bytes) -> list[tuple[int, int]]:
        return sorted(
            span for rule, pattern, after in self._rules for span in self._of(rule, pattern, after, data)
        )

    def text(self, text: str) -> str:
        data, shown, at = text.encode(), [], 0
        for begin, end in self.find(data):
            if begin >= at:
                shown += [data[at:begin], MARK.encode()]
            at = max(at, end)
        return b"".join([*shown, data[at:]]).decode()

    def _of(
        self, rule: RedactionRule, pattern: re.Pattern[bytes], after: re.Pattern[bytes] | None, data: bytes
    ) -> Iterator[tuple[int, int]]:
        at = 0
        while match := pattern.search(data, at):
            group = match.lastindex or 0
            begin, end = match.span(next((n for n in range(1, group + 1) if match.span(n) != (-1, -1)), 0))
            line = data[max(0, match.start() - LOOKS_BACK) : match.start()].rpartition(b"\n")[2]
            if (after is None or after.search(line)) and (
                rule.check is None or rule.check(SecretCandidate(data, match.start(), begin, end))
            ):
                yield begin, end
                at = match.end()
            elif match.end() - match.start() <= REJECTED:
                at = max(begin, match.start() + 1)
            else:
                at = match.end()


def quality_rows(redactor: Redactor) -> list[Row]:
    rows = []
    for each in scores(redactor)[:3]:
        name = each.name.removeprefix("Interlock, ")
        rows += [
            Row(
                *(
                    f"redaction: secrets masked, {name}",
                    each.recall_percent,
                    RECALL_PERCENT,
                    "%",
                    "% asked",
                ),
                target=1.0,
                higher_is_better=True,
            ),
            Row(
                f"redaction: false alarms, {name}", each.alarm_percent, ALARM_PERCENT, "%", "% allowed", 1.0
            ),
        ]
    return rows


def speed_rows(redactor: Redactor) -> list[Row]:
    in_turn = InTurn()
    cases = "\n".join(case.text for case in read_cases()[1])
    assert in_turn.text(cases) == redactor.text(cases), "Python's re finds something else"
    rows = []
    for name, text in texts().items():
        part = text[:FOR_RE]
        assert in_turn.text(part) == redactor.text(part), f"in {name}, Python's re finds something else"
        data, pieces, size = part.encode(), pieces_of(text, PIECE), len(text.encode())
        whole, stream, plain = interleaved(
            ROUNDS,
            rate(size, lambda text=text: redactor.text(text)),
            rate(size, lambda pieces=pieces: streamed(redactor, pieces)),
            rate(len(data), lambda data=data: in_turn.find(data)),
        )
        beside = "MB/s the rules in turn, re"
        rows += [
            Row(
                f"redaction: {name}",
                *(whole, plain, "MB/s", beside, TIMES_RE),
                higher_is_better=True,
                duty=Duty.redaction,
            ),
            Row(
                f"redaction: {name}, beside what is asked",
                *(whole, MEGABYTES_A_SECOND, "MB/s", "MB/s asked", 1.0),
                higher_is_better=True,
                duty=Duty.redaction,
            ),
            Row(f"redaction: {name}, streamed by 64 KB", stream, plain, "MB/s", beside),
        ]
    return rows


def texts() -> dict[str, str]:
    return {"code": source_code(), "prose": prose(), "lock files": lock_files(), "base64": base64_text()}


def peer_rows(redactor: Redactor) -> list[Row]:
    """The same sample of all four kinds of text, in files, to each peer; Interlock reads no files here."""
    kept = FOR_PEERS // PEER_FILE // len(texts())
    samples = [part for text in texts().values() for part in spread(pieces_of(text, PEER_FILE), kept)]
    size = sum(len(sample.encode()) for sample in samples)
    again = samples * (MEGABYTE // size)
    (ours,) = interleaved(
        ROUNDS, rate(size * (MEGABYTE // size), lambda: [redactor.text(sample) for sample in again])
    )
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path) / "texts"
        folder.mkdir()
        for number, sample in enumerate(samples):
            (folder / f"{number}.txt").write_text(sample, "utf-8")
        return [
            Row(
                f"redaction: the four texts, beside {peer.name}",
                *(ours, size / peer.scan(folder).seconds / 1e6, "MB/s", "MB/s"),
            )
            for peer in peers_at_hand()
        ]


def spread(pieces: list[str], count: int) -> list[str]:
    """So many of them, from all over the text."""
    return pieces[:: len(pieces) // count][:count]


def delta_rows(redactor: Redactor) -> list[Row]:
    """Pieces as a model streams them, of four to six characters.

    The target is a time, no ratio, so the least of many rounds counts: whatever disturbs only adds.
    """
    rows = []
    print(f"{'held back behind a delta of':34}{'median':>8}{'p99':>8}{'most':>8}   bytes")
    kinds = {
        "English": prose(),
        "Chinese": chinese_prose(),
        "Chinese with English words": chinese_prose(*MIXED),
        "code": source_code(),
    }
    for name, text in kinds.items():
        deltas = deltas_of(text)[:DELTAS]
        held = sorted(held_after_each(redactor, deltas))
        print(
            f"{name:34}{statistics.median(held):8.0f}{held[int(len(held) * 0.99)]:8}{held[-1]:8}",
            flush=True,
        )
        copied, ours = least_microseconds(
            deltas, plain_copy, lambda deltas: streamed_each(redactor, deltas)
        )
        rows.append(
            Row(
                f"redaction: a delta of {name}, above a plain copy",
                *(ours - copied, DELTA_MICROSECONDS, "µs", "µs allowed", 1.0),
                duty=Duty.delta,
            )
        )
    print()
    return rows


def deltas_of(text: str) -> list[str]:
    chance, deltas, at = random.Random(9), [], 0
    while at < len(text):
        length = chance.randint(4, 6)
        deltas.append(text[at : at + length])
        at += length
    return deltas


def plain_copy(deltas: list[str]) -> str:
    shown: list[str] = []
    for delta in deltas:
        shown.append(delta)  # noqa: PERF402 - one by one, as they come
    return "".join(shown)


def streamed_each(redactor: Redactor, deltas: list[str]) -> str:
    shown: list[str] = []
    stream = redactor.stream()
    for delta in deltas:
        shown.append(stream.feed(delta))  # noqa: PERF401 - as above
    shown.append(stream.finish())
    return "".join(shown)


def held_after_each(redactor: Redactor, deltas: list[str]) -> Iterator[int]:
    stream = redactor.stream()
    for delta in deltas:
        stream.feed(delta)
        yield stream.held


def least_microseconds(deltas: list[str], *sides: Callable[[list[str]], object]) -> list[float]:
    found = [
        [each_microseconds(lambda side=side: side(deltas), len(deltas)) for side in sides]
        for _ in range(DELTA_ROUNDS)
    ]
    return [min(times) for times in zip(*found, strict=True)]


def each_microseconds(work: Callable[[], object], times: int) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) / times * 1e6


def hostile() -> dict[str, str]:
    """Texts that keep many rules, or one of them, busy and undecided."""
    beginnings = "".join(example[0] for rule in load_rule_sources() for example in rule.must)
    body = "QkZnPHyVIZcPZ4Ohf6tWu0Yv2MnDUBNZ0YYIxNYd20DowTcfKDAbcdefghijklm\n"
    begins = "-----BEGIN PRIVATE KEY-----\n"
    starts = {
        "one letter": ("", "a"),
        "spaces": ("", " "),
        "names and no values": ("", "password="),
        "a text in quotes that does not end": ('password = "', "aB3x"),
        "escapes in quotes": ('password = "', r"\\"),
        "placeholders": ("", 'token = "your-token" '),
        "a key block that does not end": (begins, body),
        "key blocks that only begin": ("", begins),
        "parts of web tokens": ("", "eyJhbGciOi."),
        "a token that does not end": ("sk-", "aB3"),
        "URLs with users": ("", "postgres://user:"),
        "the beginnings of all examples": ("", beginnings),
    }
    return {name: start + filled(again, max(SIZES)) for name, (start, again) in starts.items()}


def growth_rows(redactor: Redactor) -> list[Row]:
    kinds: dict[str, tuple[Callable[[str], object], tuple[int, ...]]] = {
        "whole": (redactor.text, SIZES),
        "by 4 KB": (lambda text: streamed(redactor, pieces_of(text, 4096)), SIZES),
        "by 5 characters": (lambda text: streamed(redactor, pieces_of(text, 5)), DELTA_SIZES),
    }
    worst: dict[str, Row] = {}
    heads = "".join(
        f"{f'{kind}, {sizes[0] // 1024}, {sizes[1] // 1024}, {sizes[2] // 1024} KB':>34}"
        for kind, (_, sizes) in kinds.items()
    )
    print(f"{'hostile text, CPU ns a byte':36}{heads}")
    for name, text in hostile().items():
        line = f"{name:36}"
        for kind, (work, sizes) in kinds.items():
            costs = costs_at(work, text, sizes)
            line += "".join(f"{cost:{width},.0f}" for cost, width in zip(costs, (14, 10, 10), strict=True))
            units = ("ns/byte", f"ns/byte at {sizes[0] // 1024} KB, {name}")
            row = Row(
                f"redaction: hostile, {kind}, {sizes[-1] // 1024} KB", costs[-1], costs[0], *units, GROWTH
            )
            worst[kind] = max(worst.get(kind, row), row, key=lambda each: each.ratio)
        print(line, flush=True)
    print()
    return list(worst.values())


def costs_at(work: Callable[[str], object], text: str, sizes: tuple[int, ...]) -> list[float]:
    """Nanoseconds a byte, the least of some rounds."""

    def cost(size: int) -> float:
        part = text[:size]
        return each_microseconds(lambda: work(part), size) * 1e3

    found = [[cost(size) for size in sizes] for _ in range(GROWTH_ROUNDS)]
    return [min(costs) for costs in zip(*found, strict=True)]


def rows() -> list[Row]:
    # First, while nothing has been learned of any text.
    of_variety = variety.rows()
    redactor = Redactor()
    redactor.text("made ready before anything is measured")
    streamed(redactor, ["the same, ", "for streams"])
    return [
        *quality_rows(redactor),
        *speed_rows(redactor),
        *peer_rows(redactor),
        *delta_rows(redactor),
        *growth_rows(redactor),
        *of_variety,
    ]
