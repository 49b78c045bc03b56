"""Resolves requested paths, and decides whether they may be accessed.

A path is canonicalised, matched to the deepest root, and opened from that root's descriptor without
following a symlink. So what was judged is what is opened; if a part became a symlink in between, the path
is judged again, a few times, and then refused.
"""

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.files import open_beneath
from interlock.core.text import escape_control_characters, safe_excerpt
from interlock.sandbox import bare_repositories
from interlock.sandbox.canonical_path import canonicalize, canonicalize_parent
from interlock.sandbox.profile import SandboxProfile
from interlock.sandbox.protected import fold_name, parse_protected_names

Result = TypeVar("Result")

MAX_PATH_BYTES = 4096
TRIES = 4

# Errors of `openat2` for a changed path: a new symlink, or a step that left the root.
_CHANGED = frozenset({errno.ELOOP, errno.EXDEV})

_FOLDER = os.O_PATH | os.O_DIRECTORY

# By the spelling that the most forgiving file system compares.
_GIT_NAMES = {fold_name(name): name for name in (*bare_repositories.PARTS, *bare_repositories.CONTROLS)}

# Parts of a path that are no names.
_UNPLAIN = frozenset({"", ".", ".."})


class PathAccess(StrEnum):
    read = "read"
    write = "write"


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """A judged path: a root, and the parts below it, none of which was a symlink.

    `parts` is empty for the root itself. `asked` is the requested text, to judge it again.
    """

    root: Path
    parts: tuple[str, ...]
    asked: str
    access: PathAccess
    follow: bool = True

    @property
    def path(self) -> Path:
        return self.root.joinpath(*self.parts)

    @property
    def spelled(self) -> str:
        return f"{str(self.root).rstrip('/')}/{'/'.join(self.parts)}" if self.parts else str(self.root)

    @property
    def relative(self) -> str:
        return "/".join(self.parts) or "."

    @property
    def name(self) -> str:
        return self.parts[-1] if self.parts else self.root.name


class PathResolver:
    """Resolves paths for one profile."""

    def __init__(self, profile: SandboxProfile) -> None:
        self._profile = profile
        self._protected = parse_protected_names(profile.protected_names)

    @property
    def profile(self) -> SandboxProfile:
        return self._profile

    @property
    def first_root(self) -> Path:
        if not self._profile.readable_roots:
            raise ToolError(
                ErrorCode.PATH_DENIED, "no folder was opened", "Only the operator can open a folder."
            )
        return self._profile.readable_roots[0]

    def find(
        self, asked: str, access: PathAccess = PathAccess.read, *, follow: bool = True
    ) -> ResolvedPath:
        """Resolve a path, or raise a `ToolError` that says why it may not be accessed.

        With `follow` false the last part is not resolved, symlink or not: to remove or move it.
        """
        asked = _well_formed(asked)
        # Joining keeps an absolute path. Nothing is expanded, decoded or trimmed.
        joined = str(self.first_root / asked)
        canonical = canonicalize(joined) if follow else canonicalize_parent(joined)
        if canonical is None:
            raise _unsteady(asked)
        root = self._deepest_root(canonical)
        if root is None:
            raise self._outside(asked)
        _refuse_file_as_folder(asked, canonical)
        parts = Path(canonical).relative_to(root).parts
        place = ResolvedPath(root, parts, asked, access, follow)
        if access is PathAccess.write:
            self._judge_writing(place)
        return place

    def resolve_without_symlinks(self, asked: str) -> ResolvedPath | None:
        """The path to read, if no part is a symlink, which opening it without symlinks must prove.

        None if the text alone does not show it: `..`, repeated slashes, or a path outside.
        """
        asked = _well_formed(asked)
        joined = asked if asked.startswith("/") else f"{self.first_root}/{asked}"
        root = self._deepest_root(joined)
        if root is None:
            return None
        parts = tuple(joined.removeprefix(str(root)).removeprefix("/").split("/"))
        return None if _UNPLAIN.intersection(parts) else ResolvedPath(root, parts, asked, PathAccess.read)

    def shown(self, place: ResolvedPath, parts: tuple[str, ...] = ()) -> str:
        """A path in the form in which it can be asked for again, on one line."""
        whole = (*place.parts, *parts)
        inside = place.root == self.first_root
        text = "/".join(whole) or "." if inside else str(place.root.joinpath(*whole))
        return text if text.isprintable() else quote_path(text)

    def refuse_protected_below(self, place: ResolvedPath, parts: tuple[str, ...]) -> None:
        """Refuse a protected name or a root in a directory that is moved or removed."""
        if place.path.joinpath(*parts) in self._profile.readable_roots:
            raise _is_a_root(self.shown(place, parts))
        self._refuse_protected(place, parts)

    # -- opening --

    def open(self, place: ResolvedPath, flags: int) -> int:
        """A descriptor for the place; `flags` must not create."""
        return self._reach(place, lambda root, found: open_beneath(root, found.relative, flags))

    @contextmanager
    def folder(self, place: ResolvedPath) -> Iterator[int]:
        descriptor = self.open(place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def parent(self, place: ResolvedPath, *, make: bool = False) -> Iterator["OpenParent"]:
        """The open parent directory of the path, and the number of directories created for it."""

        def open_parent(root: int, found: ResolvedPath) -> OpenParent:
            if not found.parts:
                raise _is_a_root(self.shown(found))
            *above, name = found.parts
            if make:
                descriptor, made = _open_making(root, above)
                return OpenParent(descriptor, name, made)
            return OpenParent(open_beneath(root, "/".join(above) or ".", _FOLDER), name, 0)

        parent = self._reach(place, open_parent)
        try:
            yield parent
        finally:
            os.close(parent.descriptor)

    def missing_folders(self, place: ResolvedPath) -> int:
        """The number of directories that would have to be created for the path."""
        return self._reach(place, lambda root, found: _count_missing(root, found.parts[:-1]))

    def _reach(self, place: ResolvedPath, use: Callable[[int, ResolvedPath], Result]) -> Result:
        found = place
        for _ in range(TRIES):
            with _opened_root(found.root) as root:
                try:
                    return use(root, found)
                except OSError as error:
                    if error.errno not in _CHANGED:
                        raise
            found = self.find(place.asked, place.access, follow=place.follow)
            if found != place and place.access is PathAccess.write:
                # What was judged, and read before, is not what is there now.
                break
        raise _unsteady(place.asked)

    # -- judging --

    def _deepest_root(self, canonical: str) -> Path | None:
        return max(self._roots_of(canonical), key=lambda root: len(root.parts), default=None)

    def _roots_of(self, canonical: str) -> list[Path]:
        return [root for root in self._profile.readable_roots if _is_within(canonical, str(root))]

    def _judge_writing(self, place: ResolvedPath) -> None:
        # A root inside a writable one may be there to be read only: the deepest decides.
        if not any(
            _is_within(str(place.path), str(root)) and len(root.parts) >= len(place.root.parts)
            for root in self._profile.writable_roots
        ):
            raise ToolError(
                ErrorCode.PATH_DENIED,
                f"{escape_control_characters(place.asked)} is read-only here",
                "Write to another path, or tell the user.",
            )
        self._refuse_protected(place, ())
        self.refuse_git_layout(place, is_removed=not place.follow)

    def _refuse_protected(self, place: ResolvedPath, parts: tuple[str, ...]) -> None:
        if not self._protected:
            return
        # From the outermost root on: a nested root does not hide that it is inside `.git`.
        whole = place.path.joinpath(*parts)
        outermost = max(
            (whole.relative_to(root).parts for root in self._roots_of(str(place.path))), key=len, default=()
        )
        spelled = tuple(fold_name(part) for part in outermost)
        for rule in self._protected:
            if rule.covers(spelled):
                raise ToolError(
                    ErrorCode.PATH_DENIED,
                    f"{self.shown(place, parts)} is protected ({escape_control_characters(rule.name)}): "
                    "a program may run what is written there",
                    "Tell the user what to change; they can do it themselves.",
                )

    def refuse_git_layout(self, place: ResolvedPath, *, is_removed: bool = False) -> None:
        """Refuse what would make a directory a repository without a `.git`, or change what such a one runs.

        Checked again in the turn in which it happens: another process may have created the other parts.
        With `is_removed` its parts are protected too: without one it is not a repository, and its config is
        unprotected.
        """
        if not any(rule.first == ".git" for rule in self._protected):
            return
        for depth, part in enumerate(place.parts):
            name = _GIT_NAMES.get(fold_name(part))
            if name is None:
                continue
            above = place.root.joinpath(*place.parts[:depth])
            shown = escape_control_characters(str(above))
            there = bare_repositories.git_parts_in(str(above))
            if bare_repositories.is_repository(there):
                is_part = is_removed and depth == len(place.parts) - 1
                if name not in bare_repositories.CONTROLS and not is_part:
                    continue
                reason = f"is part of the git repository {shown}, which git would obey"
            elif bare_repositories.is_repository(there | {name}):
                reason = f"would turn {shown} into a git repository, whose config git obeys"
            else:
                continue
            raise ToolError(
                ErrorCode.PATH_DENIED,
                f"{self.shown(place)} {reason}",
                "Use another name, or tell the user; they can do it themselves.",
            )

    def _outside(self, asked: str) -> ToolError:
        opened = ", ".join(
            escape_control_characters(str(root)) for root in self._profile.readable_roots[:5]
        )
        return ToolError(
            ErrorCode.PATH_DENIED,
            f"{safe_excerpt(asked, 200)} is outside the opened folders",
            f"Use a path inside {opened}.",
        )


@dataclass(frozen=True, slots=True)
class OpenParent:
    """An open directory, an entry's name in it, and how many of its directories were just created."""

    descriptor: int
    name: str
    made: int


def quote_path(text: str) -> str:
    """A name that is not printable, as a JSON string: it stays on one line and can be given back."""
    return json.dumps(text, ensure_ascii=True)


def _well_formed(asked: str) -> str:
    """The path with one spelling per name: bytes may also be given one by one, as lone surrogates."""
    fault, path = "", b""
    try:
        path = os.fsencode(asked)
    except UnicodeEncodeError:
        fault = "must not contain half a character (a lone surrogate)"
    if not asked:
        fault = "must not be empty"
    elif "\0" in asked:
        fault = "must not contain a null character"
    elif len(path) > MAX_PATH_BYTES:
        fault = f"must not be longer than {MAX_PATH_BYTES} bytes"
    if fault:
        raise ToolError(ErrorCode.INVALID_ARGS, f"path: {fault}", "Correct the path and call it again.")
    return os.fsdecode(path)


def _refuse_file_as_folder(asked: str, canonical: str) -> None:
    """A path that ends with a slash, or with `/.`, must be a directory."""
    if asked.endswith(("/", "/.")) and not os.path.isdir(canonical):  # noqa: PTH112 - as it is used here
        raise ToolError(
            ErrorCode.INVALID_ARGS,
            f"path: {escape_control_characters(asked)} ends like a folder, but is not a folder",
            "Remove what follows the file name.",
        )


def _unsteady(asked: str) -> ToolError:
    return ToolError(
        ErrorCode.PATH_DENIED,
        f"{escape_control_characters(asked)} is a symlink loop, or changed while it was being opened",
        "Check the folder again before you continue.",
    )


def _is_a_root(shown: str) -> ToolError:
    return ToolError(
        ErrorCode.PATH_DENIED,
        f"{shown} is an opened folder and cannot be changed itself",
        "Choose something inside it.",
    )


def _is_within(path: str, root: str) -> bool:
    return path == root or path.startswith(root if root.endswith("/") else f"{root}/")


@contextmanager
def _opened_root(root: Path) -> Iterator[int]:
    """A root's descriptor. A root replaced by a symlink since the start is not followed."""
    top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        descriptor = open_beneath(top, str(root).lstrip("/") or ".", _FOLDER)
    except OSError as error:
        raise ToolError(
            ErrorCode.PATH_DENIED,
            f"the opened folder {escape_control_characters(str(root))} cannot be reached: {error.strerror}",
            "Tell the user that the folder no longer exists or was replaced.",
        ) from None
    finally:
        os.close(top)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _count_missing(root: int, parts: tuple[str, ...]) -> int:
    for missing in range(len(parts)):
        with suppress(FileNotFoundError):
            os.close(open_beneath(root, "/".join(parts[: len(parts) - missing]), _FOLDER))
            return missing
    return len(parts)


def _open_making(root: int, parts: list[str]) -> tuple[int, int]:
    """Open a directory, creating missing parts; returns how many were created."""
    current, made, reached = open_beneath(root, ".", _FOLDER), 0, 0
    try:
        for part in parts:
            below, is_new = _open_or_make(current, part)
            os.close(current)
            current, made, reached = below, made + is_new, reached + 1
    except BaseException:
        os.close(current)
        _unmake(root, parts[:reached], made)
        raise
    return current, made


def _open_or_make(folder: int, name: str) -> tuple[int, bool]:
    try:
        return open_beneath(folder, name, _FOLDER), False
    except FileNotFoundError:
        is_new = False
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
            is_new = True
        return open_beneath(folder, name, _FOLDER), is_new


def _unmake(root: int, parts: list[str], made: int) -> None:
    """Remove the directories created before a failure, if they are empty."""
    with suppress(OSError):
        for length in range(len(parts), len(parts) - made, -1):
            above = open_beneath(root, "/".join(parts[: length - 1]) or ".", _FOLDER)
            try:
                os.rmdir(parts[length - 1], dir_fd=above)
            finally:
                os.close(above)
