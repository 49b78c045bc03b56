"""Reads systemd's unit files as far as ours go."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "systemd"


@dataclass(frozen=True)
class Unit:
    name: str
    entries: tuple[tuple[str, str, str], ...]

    def all(self, key: str) -> list[str]:
        return [value for _, name, value in self.entries if name == key]

    def one(self, key: str) -> str:
        (value,) = self.all(key)
        return value

    def seconds(self, key: str) -> float:
        value = self.one(key)
        for ending, factor in (("min", 60), ("s", 1)):
            if value.endswith(ending):
                return float(value.removesuffix(ending)) * factor
        raise ValueError(value)


def read_unit(path: Path) -> Unit:
    section, entries = "", []
    for line in path.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            entries.append((section, key, value))
    return Unit(path.name, tuple(entries))


def read_variables(path: Path) -> tuple[dict[str, str], list[str]]:
    """What a file of variables sets, and the names that it only proposes."""
    given, proposed = {}, []
    for line in path.read_text().splitlines():
        name, equals, value = line.removeprefix("# ").partition("=")
        if equals and name.replace("_", "").isupper():
            if line.startswith("#"):
                proposed.append(name)
            else:
                given[name] = value
    return given, proposed


def calls_of(filters: str) -> set[str]:
    """The system calls of systemd's groups, as the systemd of this machine has them."""
    calls = set()
    for group in filters.removeprefix("~").split():
        done = subprocess.run(
            ["systemd-analyze", "syscall-filter", group], capture_output=True, text=True, check=True
        )
        lines = [line.strip() for line in done.stdout.splitlines()[1:]]
        calls |= {line for line in lines if line and not line.startswith(("#", "@"))}
    return calls


UNITS = [read_unit(path) for path in sorted(FOLDER.glob("*.service"))]
