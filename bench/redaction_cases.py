"""How well secrets are found: lines with secrets and harmless ones that look alike, for us and for peers.

A line with a secret passes when no run of eight characters of the secret survives, of a PEM block no line
of its body. A harmless line passes unchanged. Harmless lines that are marked soft are counted apart.
"""

import json
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.environments import ROOT
from bench.peers_redaction import Peer, peers_at_hand
from interlock.redaction.redactor import MARK, Redactor

SOURCES = (ROOT.parent / "shared/cases/secrets.jsonl", ROOT / "tests/data/redaction/cases.jsonl")
SURVIVING = 8
# What a file is called decides how some peers read it.
SUFFIXES = {"python": "py", "shell": "sh"} | {
    name: name for name in ("diff", "env", "json", "log", "md", "toml", "yaml", "sql", "ini", "xml")
}
PEM = re.compile(r"-----BEGIN[^-]*PRIVATE KEY[^-]*-----.*?-----END[^-]*-----", re.DOTALL)

Outputs = Callable[["Case"], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    text: str
    secrets: tuple[str, ...]
    is_soft: bool
    is_pem: bool

    def passes(self, shown: str) -> bool:
        if not self.secrets:
            return shown == self.text
        if self.is_pem:
            return not any(line in shown for secret in self.secrets for line in secret.splitlines()[1:-1])
        return not any(
            secret[at : at + SURVIVING] in shown
            for secret in self.secrets
            for at in range(max(1, len(secret) - SURVIVING + 1))
        )

    def leaked_and_lost(self, shown: str) -> tuple[int, int]:
        """How many characters of secrets are still there, and of all else are gone."""
        kinds, is_kept = bytearray(b"o" * len(self.text)), bytearray(len(self.text))
        for secret in self.secrets:
            at = self.text.index(secret)
            kinds[at : at + len(secret)] = b"s" * len(secret)
            if self.is_pem:
                # Its first line and its last may stay or go.
                top, bottom = secret.index("\n"), secret.rindex("\n")
                kinds[at : at + top] = b"-" * top
                kinds[at + bottom : at + len(secret)] = b"-" * (len(secret) - bottom)
        at = 0
        *pieces, last = shown.split(MARK)
        for piece in pieces:
            at = self.text.index(piece, at)
            is_kept[at : at + len(piece)] = b"\1" * len(piece)
            at += len(piece)
        assert self.text.endswith(last)
        is_kept[len(self.text) - len(last) :] = b"\1" * len(last)
        pairs = list(zip(kinds, is_kept, strict=True))
        return pairs.count((ord("s"), 1)), pairs.count((ord("o"), 0))


@dataclass(slots=True)
class Score:
    """Of several outputs for a line, such as one for every cut, the worst counts."""

    name: str
    secret: int = 0
    masked: int = 0
    leaked: int = 0
    lost: int = 0
    harmless: int = 0
    alarms: int = 0
    soft: int = 0

    def add(self, case: Case, outputs: Iterable[str]) -> None:
        different = set(outputs)
        passed = all(map(case.passes, different))
        if case.secrets:
            leaks, losses = zip(*map(case.leaked_and_lost, different), strict=True)
            self.secret, self.masked = self.secret + 1, self.masked + passed
            self.leaked, self.lost = self.leaked + max(leaks), self.lost + max(losses)
        elif case.is_soft:
            self.soft += not passed
        else:
            self.harmless, self.alarms = self.harmless + 1, self.alarms + (not passed)

    @property
    def recall_percent(self) -> float:
        return 100 * self.masked / self.secret

    @property
    def alarm_percent(self) -> float:
        return 100 * self.alarms / self.harmless


def read_cases() -> tuple[Path, list[Case]]:
    source = next(path for path in SOURCES if path.exists())
    rows = [json.loads(line) for line in source.read_text("utf-8").splitlines()]
    return source, [_case(row) for row in rows if "template" in row]


def _case(row: dict[str, object]) -> Case:
    text, values = str(row["template"]), ["".join(pieces) for pieces in row["pieces"]]  # type: ignore[attr-defined]
    for number, value in enumerate(values):
        text = text.replace(f"{{S{number}}}", value)
    return Case(
        name=f"{row['id']}.{SUFFIXES.get(str(row['format']), 'txt')}",
        text=text,
        secrets=tuple(values) if row["secret"] else (),
        is_soft=bool(row.get("soft")),
        is_pem=row["format"] == "pem",
    )


def streamed(redactor: Redactor, pieces: Iterable[str]) -> str:
    stream = redactor.stream()
    return "".join([*map(stream.feed, pieces), stream.finish()])


def ours(redactor: Redactor) -> dict[str, Outputs]:
    return {
        "Interlock, whole": lambda case: [redactor.text(case.text)],
        "Interlock, a character at a time": lambda case: [streamed(redactor, case.text)],
        "Interlock, cut at every offset": lambda case: (
            streamed(redactor, (case.text[:at], case.text[at:])) for at in range(len(case.text) + 1)
        ),
    }


def of_peer(peer: Peer, cases: Sequence[Case]) -> Outputs:
    """What it reports is masked wherever it stands; the first line of a PEM block stands for all of it."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path) / "cases"
        folder.mkdir()
        for case in cases:
            (folder / case.name).write_text(f"{case.text}\n", "utf-8")
        found = peer.scan(folder, rounds=1).found

    def outputs(case: Case) -> list[str]:
        shown = case.text
        for value in sorted(filter(None, set(found.get(case.name, ()))), key=len, reverse=True):
            if "PRIVATE KEY" in value:
                shown = PEM.sub(MARK, shown)
            shown = MARK.join(piece.replace(value, MARK) for piece in shown.split(MARK))
        return [shown]

    return outputs


def scores(redactor: Redactor) -> list[Score]:
    """Interlock's three first."""
    source, cases = read_cases()
    contestants = ours(redactor) | {peer.name: of_peer(peer, cases) for peer in peers_at_hand()}
    found = []
    for name, outputs in contestants.items():
        score = Score(name)
        for case in cases:
            score.add(case, outputs(case))
        found.append(score)
    print_scores(source, found)
    return found


def print_scores(source: Path, found: list[Score]) -> None:
    first = found[0]
    print(f"\n{source.name}: {first.secret} lines with secrets, {first.harmless} harmless")
    print(
        f"{'':34}{'masked':>8}{'recall':>9}{'leaked':>8}{'lost':>6}{'alarms':>8}{'':>9}{'soft':>6}"
        "   (leaked, lost: characters of secrets that stay, of all else that go)"
    )
    for each in found:
        print(
            f"{each.name:34}{each.masked:8}{each.recall_percent:8.1f}%{each.leaked:8}{each.lost:6}"
            f"{each.alarms:8}{each.alarm_percent:8.1f}%{each.soft:6}"
        )
    print()
