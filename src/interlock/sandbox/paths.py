"""Where a path that somebody asked for really is, and whether it may be touched.

A path is brought into its canonical form, matched to the deepest root and opened from that root's
descriptor without passing through a link. So what was judged is what is opened; where something became
a link in between, the path is judged again, a few times, and then refused.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from interlock.infra.errors import ErrorCode, ToolError
from interlock.infra.text import visible
from interlock.sandbox.globs import Glob
from interlock.sandbox.kernel import open_beneath
from interlock.sandbox.profile import SandboxProfile

Result = TypeVar("Result")

MAX_PATH_BYTES = 4096
TRIES = 4

# What a changed path looks like to `openat2`: a link where none was, or a step that left the root.
_CHANGED = frozenset({errno.ELOOP, errno.EXDEV})


class Access(StrEnum):
    read = "read"
    write = "write"


@dataclass(frozen=True, slots=True)
class Place:
    """A judged path: a root, and the parts below it, none of which was a link.

    `parts` is empty for the root itself. `asked` is how it was asked for, to be judged again.
    """

    root: Path
    parts: tuple[str, ...]
    asked: str
    access: Access
    follow: bool = True

    @property
    def path(self) -> Path:
        return self.root.joinpath(*self.parts)

    @property
    def relative(self) -> str:
        return "/".join(self.parts) or "."

    @property
    def name(self) -> str:
        return self.parts[-1] if self.parts else self.root.name


@dataclass(frozen=True, slots=True)
class _Protection:
    """A protected name: where it is found in a path, and the folder it needs to be one."""

    name: str
    anywhere: Glob
    first: str | None
    folder: str | None


@lru_cache(maxsize=64)
def _protections(names: tuple[str, ...]) -> tuple[_Protection, ...]:
    rules = []
    for name in names:
        parts = [part for part in name.split("/") if part]
        is_plain = not set(parts[0]) & set("*?[{")
        rules.append(
            _Protection(
                name=name,
                anywhere=Glob(f"**/{name}/**", ignore_case=True),
                first=parts[0].casefold() if is_plain else None,
                folder=parts[0].casefold() if len(parts) > 1 else None,
            )
        )
    return tuple(rules)


class Territory:
    """The folders of one profile."""

    def __init__(self, profile: SandboxProfile) -> None:
        self._profile = profile
        self._protected = _protections(profile.protected_names)

    @property
    def first_root(self) -> Path:
        return self._profile.readable_roots[0]

    def find(self, asked: str, access: Access = Access.read, *, follow: bool = True) -> Place:
        """The place of a path, or a `ToolError` that says why it may not be touched.

        With `follow` false the last part is taken as it is, link or not: to remove or move it.
        """
        _refuse_malformed(asked)
        # Joining keeps an absolute path as it is. Nothing is expanded, decoded or trimmed.
        joined = str(self.first_root / asked)
        canonical = os.path.realpath(joined) if follow else _real_parent(joined)
        root = self._deepest_root(canonical)
        if root is None:
            raise self._outside(asked)
        parts = Path(canonical).relative_to(root).parts
        place = Place(root, parts, asked, access, follow)
        if access is Access.write:
            self._judge_writing(place)
        return place

    def shown(self, place: Place, parts: tuple[str, ...] = ()) -> str:
        """A path in the form in which it can be asked for again, on one line."""
        whole = (*place.parts, *parts)
        inside = place.root == self.first_root
        text = "/".join(whole) or "." if inside else str(place.root.joinpath(*whole))
        return text if text.isprintable() else quoted(text)

    def refuse_protected_below(self, place: Place, parts: tuple[str, ...]) -> None:
        """A folder that is moved or removed takes along what lies in it."""
        if name := self._protecting((*place.parts, *parts)):
            raise self._protected_refusal(self.shown(place, parts), name)

    # -- opening --

    def open(self, place: Place, flags: int) -> int:
        """A descriptor for the place; `flags` must not create."""
        return self._reach(place, lambda root, found: open_beneath(root, found.relative, flags))

    @contextmanager
    def folder(self, place: Place, *, flags: int = os.O_RDONLY) -> Iterator[int]:
        descriptor = self.open(place, flags | os.O_DIRECTORY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def parent(self, place: Place, *, make: bool = False) -> Iterator["Parent"]:
        """The folder that holds the place, and the folders that had to be made for it."""
        if not place.parts:
            raise ToolError(
                ErrorCode.PATH_DENIED,
                f"{self.shown(place)} is one of the folders that were opened; it stays as it is",
                "Name something inside it.",
            )
        opener = _open_making if make else _open_parent
        descriptor, made = self._reach(place, lambda root, found: opener(root, found.parts[:-1]))
        try:
            yield Parent(descriptor, place.name, made)
        finally:
            os.close(descriptor)

    def _reach(self, place: Place, use: Callable[[int, Place], Result]) -> Result:
        found = place
        for _ in range(TRIES):
            with _opened_root(found.root) as root:
                try:
                    return use(root, found)
                except OSError as error:
                    if error.errno not in _CHANGED:
                        raise
            found = self.find(place.asked, place.access, follow=place.follow)
            if found != place and place.access is Access.write:
                # What was judged, and what was read before, is not what is there now.
                break
        raise ToolError(
            ErrorCode.PATH_DENIED,
            f"{visible(place.asked)} is a loop of links, or changed while it was being opened",
            "Look at the folder again before you go on.",
        )

    # -- judging --

    def _deepest_root(self, canonical: str) -> Path | None:
        containing = [root for root in self._profile.readable_roots if _is_within(canonical, str(root))]
        return max(containing, key=lambda root: len(root.parts), default=None)

    def _judge_writing(self, place: Place) -> None:
        if not any(_is_within(str(place.path), str(root)) for root in self._profile.writable_roots):
            raise ToolError(
                ErrorCode.PATH_DENIED,
                f"{visible(place.asked)} may be read here, not written",
                "Write somewhere else, or tell the person.",
            )
        if name := self._protecting(place.parts):
            raise self._protected_refusal(self.shown(place), name)

    def _protecting(self, parts: tuple[str, ...]) -> str | None:
        """The name that protects this path: the path, or a folder it lies in, or one it would stand for."""
        if not parts:
            return None
        folded = {part.casefold() for part in parts}
        for rule in self._protected:
            if rule.first is not None and rule.first not in folded:
                continue
            # `.git` as a file can point at other hooks: it must not be put in the folder's place.
            if rule.anywhere.matches_whole(parts) or rule.folder == parts[-1].casefold():
                return rule.name
        return None

    def _protected_refusal(self, shown: str, name: str) -> ToolError:
        return ToolError(
            ErrorCode.PATH_DENIED,
            f"{shown} is protected ({visible(name)}): a program may run what is written there",
            "Tell the person what should be changed; they can do it themselves.",
        )

    def _outside(self, asked: str) -> ToolError:
        opened = ", ".join(visible(str(root)) for root in self._profile.readable_roots[:5])
        return ToolError(
            ErrorCode.PATH_DENIED,
            f"{visible(asked[:200])} is outside the folders that were opened",
            f"Use a path inside {opened}.",
        )


@dataclass(frozen=True, slots=True)
class Parent:
    """An open folder, the name of something in it, and how many of its folders were made just now."""

    descriptor: int
    name: str
    made: int


def quoted(text: str) -> str:
    """A name that is not printable, as a JSON string: it stays on one line and can be given back."""
    import json

    return json.dumps(text, ensure_ascii=True)


def _refuse_malformed(asked: str) -> None:
    fault = ""
    if not asked:
        fault = "must not be empty"
    elif "\0" in asked:
        fault = "must not contain a null character"
    elif len(os.fsencode(asked)) > MAX_PATH_BYTES:
        fault = f"must not be longer than {MAX_PATH_BYTES} bytes"
    if fault:
        raise ToolError(ErrorCode.INVALID_ARGS, f"path: {fault}", "Correct the path and call it again.")


def _real_parent(joined: str) -> str:
    """Every link resolved but the last part, which is the thing itself."""
    whole = Path(joined)
    if whole.name in {"", ".."}:
        return os.path.realpath(joined)
    return str(Path(os.path.realpath(whole.parent)) / whole.name)


def _is_within(path: str, root: str) -> bool:
    return path == root or path.startswith(root if root.endswith("/") else f"{root}/")


@contextmanager
def _opened_root(root: Path) -> Iterator[int]:
    """A root's descriptor. A root that was replaced by a link since the start is not followed."""
    top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        descriptor = open_beneath(top, str(root).lstrip("/") or ".", os.O_PATH | os.O_DIRECTORY)
    except OSError as error:
        raise ToolError(
            ErrorCode.PATH_DENIED,
            f"the opened folder {visible(str(root))} cannot be reached: {error.strerror}",
            "Tell the person that the folder is gone or was replaced.",
        ) from None
    finally:
        os.close(top)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_parent(root: int, parts: tuple[str, ...]) -> tuple[int, int]:
    return open_beneath(root, "/".join(parts) or ".", os.O_PATH | os.O_DIRECTORY), 0


def _open_making(root: int, parts: tuple[str, ...]) -> tuple[int, int]:
    """The folder, made with those above it as far as they are missing."""
    current, made = open_beneath(root, ".", os.O_PATH | os.O_DIRECTORY), 0
    for part in parts:
        try:
            try:
                below = open_beneath(current, part, os.O_PATH | os.O_DIRECTORY)
            except FileNotFoundError:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=current)
                    made += 1
                below = open_beneath(current, part, os.O_PATH | os.O_DIRECTORY)
        finally:
            os.close(current)
        current = below
    return current, made
