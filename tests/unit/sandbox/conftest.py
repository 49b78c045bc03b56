"""A small world with an inside and an outside, opened with `openat2` and once more without it."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.config.protected_names import PROTECTED_NAMES
from interlock.core import files
from interlock.sandbox.paths import PathResolver
from interlock.sandbox.profile import SandboxProfile

CANARY = "CANARY"


def open_descriptors() -> set[tuple[str, str]]:
    """Every descriptor of this process and what it leads to, without the one that lists them."""
    found = set()
    for number in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add((number.name, str(number.readlink())))
    return found


@pytest.fixture(params=["openat2", "step by step"])
def both_ways(request, monkeypatch) -> Iterator[str]:
    """Runs a test with either way of opening, and fails it where it leaves a descriptor open."""
    if request.param == "openat2" and not files.has_openat2():
        pytest.skip("this kernel has no openat2")
    monkeypatch.setattr(files, "has_openat2", lambda: request.param == "openat2")
    before = open_descriptors()
    yield request.param
    assert open_descriptors() == before


@pytest.fixture(params=["without a name", "with a name of ours"])
def unseen(request, monkeypatch) -> None:
    """Both ways to write a file before anybody sees it."""
    if request.param == "with a name of ours":
        monkeypatch.setattr(files, "_open_unnamed", lambda _folder, _mode: None)


@dataclass(frozen=True)
class PathTree:
    top: Path
    resolver: PathResolver

    @property
    def inside(self) -> Path:
        return self.top / "ws"

    @property
    def outside(self) -> Path:
        return self.top / "outside"

    def write(self, name: str, content: str = "ok") -> Path:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    def link(self, name: str, target: str) -> Path:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
        return path


def territory_of(*roots: Path, writable: tuple[Path, ...] | None = None, **rest) -> PathResolver:
    rest.setdefault("protected_names", PROTECTED_NAMES)
    return PathResolver(SandboxProfile(roots, roots if writable is None else writable, **rest))


@pytest.fixture
def roots(tmp_path) -> PathTree:
    """`ws` may be read and written, `lib` read; `outside`, and a folder named much like `ws`, neither."""
    top = tmp_path.resolve()
    for folder in ("ws/src/deep", "ws/empty", "lib", "outside/dir", "ws-secrets"):
        (top / folder).mkdir(parents=True)
    roots = PathTree(top, territory_of(top / "ws", top / "lib", writable=(top / "ws",)))
    roots.write("ws/README.md")
    roots.write("ws/src/a.py")
    roots.write("lib/b.py")
    roots.write("outside/secret.txt", CANARY)
    roots.write("outside/dir/s.txt", CANARY)
    roots.write("ws-secrets/k.txt", CANARY)
    return roots
