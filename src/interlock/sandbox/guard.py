"""Puts protected names back as they were, after a command that the kernel let write beside them.

Landlock opens whole folders; it cannot leave a file in them out. So what is protected is remembered before
a command runs, where such names usually are: in each root, from the working folder up, and in the
repositories that lie inside. The folders above a protected name are watched too: another `.git`, or a link
in its place, brings other hooks.

Commands that run at the same time share one memory, `guard_memory.py`: what one of them changed must not be
remembered by the next as the state to be kept. What a process that was killed had to put back, the next one
does: all that changed until it died. What changed later is a person's, and is left.
"""

import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path

from interlock.infra.errors import ErrorCode, ToolError
from interlock.infra.logging import Log
from interlock.infra.records import dataclass
from interlock.sandbox import git_layout
from interlock.sandbox.globs import Glob, expand_braces
from interlock.sandbox.guard_memory import Key, Left, Memory, Scan, Tell, tell_nobody
from interlock.sandbox.guard_places import below, is_gone_since, is_missing_at, place_of
from interlock.sandbox.guarded import (
    Budget,
    CannotPutBack,
    Snapshot,
    put_back,
    put_back_top,
    snapshot_of,
    thing_at,
    unless_later,
)
from interlock.sandbox.nested import folders_with
from interlock.sandbox.paths import Access, Parent, Place, Territory, quoted
from interlock.sandbox.profile import SandboxProfile
from interlock.sandbox.protected import GIT_HEAD
from interlock.sandbox.removal import remove_entry
from interlock.sandbox.tree import Entry, walk

MAX_SCANNED = 50_000
NOT_PUT_BACK = " (it could not be restored)"
_PATTERNED = frozenset("*?[")
_OWNER_BITS = 0o700
# As a file, it says where the repository is.
_REPOSITORY = ".git"
_STORES = frozenset({"objects", "refs", "logs", "lfs"})

_log = Log(__name__)

_MEMORY = Memory()


# A process says every second that it lives. When it is killed its commands are too, a moment later.
_AFTERWARDS_NS = 10 * 10**9


def share_memory(folder: Path, tell: Tell = tell_nobody) -> None:
    """With the commands of all processes that share this folder, which no command can reach.

    What one of them left that was killed is put back now, or before the next command, and `tell` is told.
    """
    _MEMORY.share(folder, tell)
    try:
        if _MEMORY.some_left():
            with _MEMORY.turn():
                _put_back_what_was_left()
    except (OSError, ToolError) as error:
        _log.error("protected_names_not_looked_at", error=str(error))


def _put_back_what_was_left() -> None:
    """Within a turn."""
    for left in _MEMORY.left():
        roots = tuple({place.root for place in left.places.values() if place.root.is_dir()})
        told = ProtectedGuard.of_one_that_is_gone(left, roots).restore_left() if roots else []
        if told:
            _log.error(
                "protected_names_put_back", paths=told, reason="a process was killed with its command"
            )
            _MEMORY.tell(told)
        _MEMORY.bury(left)


@dataclass(slots=True)
class _Remembered:
    """By place: the folders above protected names, the protected themselves, and what patterns found.

    `heads` are `.git/HEAD`, which git rewrites. `layouts` say which parts of a repository lay in a
    directory itself. `tops` are the repositories inside. With one that was removed, its protected names
    may go.
    """

    above: dict[Place, Snapshot | None] = field(default_factory=dict)
    protected: dict[Place, Snapshot | None] = field(default_factory=dict)
    heads: dict[Place, Snapshot | None] = field(default_factory=dict)
    layouts: list[Scan] = field(default_factory=list)
    scans: list[Scan] = field(default_factory=list)
    tops: list[Place] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)


class ProtectedGuard:
    """`remember` before a command and `restore` after it, whatever became of either."""

    def __init__(self, profile: SandboxProfile, workdir: Place) -> None:
        roots = profile.writable_roots
        # For this, nothing is protected: it is what protects.
        self._territory = Territory(SandboxProfile(roots, roots))
        names = [each for name in profile.protected_names for each in expand_braces(name)]
        self._names = [Path(name).parts for name in names]
        self._roots = roots
        self._bases = list(dict.fromkeys(_bases(roots, workdir)))
        self._before = _Remembered()
        self._found: dict[str, Place | None] = {}
        self._budget = Budget()
        self._is_over = False
        # What changed later is somebody else's.
        self._until_ns: int | None = None

    @classmethod
    def of_one_that_is_gone(cls, left: Left, roots: tuple[Path, ...]) -> "ProtectedGuard":
        guard = cls(SandboxProfile(roots, roots), place_of(roots[0], ()))
        guard._until_ns = left.until_ns + _AFTERWARDS_NS
        before = guard._before
        for key, place in left.places.items():
            if place.root not in roots:
                continue
            match key[0], left.values.get(key):
                case "scan", Scan() as scan:
                    before.scans.append(scan)
                case "layout", Scan() as scan:
                    before.layouts.append(scan)
                case "top", _:
                    before.tops.append(place)
                case "above", snapshot:
                    before.above[place] = snapshot
                case "protected", snapshot:
                    before.protected[place] = snapshot
                case "head", snapshot:
                    before.heads[place] = snapshot
        return guard

    def restore_left(self) -> list[str]:
        """Within a turn."""
        told: dict[str, None] = {}
        self._put_all_back(self._before, told)
        return list(told)

    def remember(self) -> None:
        if not self._roots:
            return
        with _MEMORY.turn():
            if self._is_over:
                return
            _put_back_what_was_left()
            for base in self._bases:
                self._remember_layout(base)
                for parts in self._names:
                    self._remember_name(base, parts)
            for root in self._roots:
                self._remember_nested(root)

    def restore(self) -> list[str]:
        """The paths that had to be put back; one that could not be is marked so."""
        if not self._roots:
            return []
        with _MEMORY.last_turn():
            self._is_over = True
            before, self._before = self._before, _Remembered()
            told: dict[str, None] = {}
            try:
                self._put_all_back(before, told)
            finally:
                for key in before.keys:
                    _MEMORY.release(key)
        return list(told)

    def _put_all_back(self, before: _Remembered, told: dict[str, None]) -> None:
        gone = [top.path for top in before.tops if is_missing_at(top)]
        for places in (before.above, before.protected, before.heads) if gone else ():
            for place in [one for one in places if any(map(one.path.is_relative_to, gone))]:
                del places[place]
        for place, above in before.above.items():
            self._try(told, place, above, _restore_above)
        for place, snapshot in before.protected.items():
            self._try(told, place, snapshot, put_back)
        for place, snapshot in before.heads.items():
            self._try(told, place, snapshot, _put_back_head)
        for scan in before.layouts:
            self._undo_layout(told, scan)
        for scan in before.scans:
            self._remove_new_matches(told, scan)

    def _shown(self, place: Place) -> str:
        """Whole for one that is gone: nobody knows from which folder its paths were meant."""
        if self._until_ns is None:
            return self._territory.shown(place)
        whole = str(place.path)
        return whole if whole.isprintable() else quoted(whole)

    # -- remembering --

    def _remember_name(self, base: Place, parts: tuple[str, ...]) -> None:
        """What is above it, it itself, and where it is a pattern, all that it matches."""
        plain = next((at for at, part in enumerate(parts) if _PATTERNED & set(part)), len(parts))
        for length in range(1, min(plain + 1, len(parts))):
            self._take(self._before.above, "above", self._place(base, parts[:length]))
        if parts == GIT_HEAD:
            self._take(self._before.heads, "head", self._place(base, parts))
            return
        if plain == len(parts):
            self._take(self._before.protected, "protected", self._place(base, parts))
            return
        place = self._place(base, parts[:plain]) if plain else base
        if place is None:
            return
        pattern = "/".join(parts[plain:])
        key = ("scan", place.asked, pattern)
        scan: Scan = _MEMORY.take(key, lambda: Scan(place, pattern, self._matches(place, pattern)), place)
        self._before.keys.append(key)
        self._before.scans.append(scan)
        if scan.found is None and plain:
            # In a folder of its own so many are nobody's, but of a command that wants to hide something.
            raise _too_many(self._shown(place))
        for found in scan.found or ():
            self._take(self._before.protected, "protected", found)

    def _remember_layout(self, base: Place) -> None:
        """Which parts of a repository lie in the directory itself; where it is one, what git runs there."""
        if not any(parts[0] == _REPOSITORY for parts in self._names):
            return
        key: Key = ("layout", base.asked)
        scan: Scan = _MEMORY.take(key, lambda: Scan(base, "", _layout_in(base)), base)
        self._before.keys.append(key)
        self._before.layouts.append(scan)
        if git_layout.is_repository({place.name for place in scan.found or ()}):
            for name in git_layout.CONTROLS:
                self._take(self._before.protected, "protected", self._place(base, (name,)))

    def _remember_nested(self, root: Path) -> None:
        """In the repositories inside. Names without a folder of their own are trusted only further up."""
        firsts = {parts[0] for parts in self._names if len(parts) > 1 and not _PATTERNED & set(parts[0])}
        known = {base.path for base in self._bases}
        for folder, first in folders_with(root, firsts):
            base = place_of(root, folder)
            if base.path in known:
                continue
            top = below(base, (first,))
            self._before.tops.append(top)
            self._before.keys.append(("top", top.asked))
            _MEMORY.take(("top", top.asked), lambda: None, top)
            self._remember_layout(base)
            for parts in self._names:
                if parts[0] == first:
                    self._remember_name(base, parts)

    def _take(self, places: dict[Place, Snapshot | None], kind: str, place: Place | None) -> None:
        if place is None or place in places:
            return
        key: Key = (kind, place.asked)
        places[place] = _MEMORY.take(key, lambda: self._look(place, is_above=kind == "above"), place)
        self._before.keys.append(key)

    def _place(self, base: Place, parts: tuple[str, ...]) -> Place | None:
        """Where a path really is; None where links lead out of what can be written."""
        path = "/".join((base.asked, *parts))
        if path not in self._found:
            # Most names are not there at all, and then no link is on the way.
            begins = not is_missing_at(below(base, parts[:1]))
            self._found[path] = self._find(path) if begins else below(base, parts)
        return self._found[path]

    def _find(self, path: str) -> Place | None:
        try:
            found = self._territory.find(path, Access.write, follow=False)
        except (OSError, ToolError):
            return None
        # By one spelling, so that it is the same for everybody.
        return place_of(found.root, found.parts)

    def _look(self, place: Place, *, is_above: bool) -> Snapshot | None:
        """None where it cannot be looked at."""
        if is_missing_at(place):
            return Snapshot()
        try:
            with self._territory.parent(place) as parent:
                if is_above:
                    return Snapshot(thing_at(parent.descriptor, parent.name, self._budget))
                return snapshot_of(parent, self._budget)
        except (FileNotFoundError, NotADirectoryError):
            return Snapshot()
        except (OSError, ToolError):
            return None

    def _matches(self, top: Place, pattern: str) -> frozenset[Place] | None:
        """What matches a pattern below a place; None for too much. What lies in a match belongs to it."""
        if is_missing_at(top):
            return frozenset()
        glob, found = Glob(pattern), set()
        try:
            with self._territory.folder(top) as folder:
                entries = walk(
                    folder, descend=lambda entry: not (glob.matches_whole(entry.parts) or _is_store(entry))
                )
                for count, entry in enumerate(entries):
                    if count >= MAX_SCANNED:
                        return None
                    if glob.matches_whole(entry.parts):
                        found.add(below(top, entry.parts))
        except (OSError, ToolError):
            return frozenset(found)
        return frozenset(found)

    # -- restoring --

    def _remove_new_matches(self, told: dict[str, None], scan: Scan) -> None:
        if scan.found is None:
            return
        now = self._matches(scan.place, scan.pattern)
        if now is None:
            told[f"{self._shown(scan.place)}{NOT_PUT_BACK}"] = None
            return
        for place in sorted(now - scan.found, key=lambda place: place.parts):
            self._try(told, place, Snapshot(), put_back)

    def _undo_layout(self, told: dict[str, None], scan: Scan) -> None:
        """A directory that the command made a repository is none again: what came last is moved aside.

        Not removed, for a person may have asked for that repository.
        """
        before, now = scan.found or frozenset(), _layout_in(scan.place)
        if git_layout.is_repository({place.name for place in before}):
            return
        added = sorted(now - before, key=lambda place: git_layout.PARTS.index(place.name))
        while git_layout.is_repository({place.name for place in now}):
            place = added.pop(0)
            now -= {place}
            shown = self._shown(place)
            try:
                with self._territory.parent(place) as parent:
                    changed_ns = os.stat(
                        parent.name, dir_fd=parent.descriptor, follow_symlinks=False
                    ).st_ctime_ns
                    if self._until_ns is not None and changed_ns > self._until_ns:
                        return
                    told[f"{shown} (now {_move_aside(parent)})"] = None
            except (OSError, ToolError):
                told[f"{shown}{NOT_PUT_BACK}"] = None

    def _try(
        self,
        told: dict[str, None],
        place: Place,
        before: Snapshot | None,
        restored: Callable[[Parent, Snapshot], bool],
    ) -> None:
        is_missing = before is not None and before.top.kind == "nothing"
        if is_missing and is_missing_at(place):
            return
        if self._until_ns is not None and is_gone_since(place, self._until_ns):
            return
        shown = self._shown(place)
        if before is None:
            if self._look(place, is_above=True) is not None:
                told[f"{shown}{NOT_PUT_BACK}"] = None
            return
        is_needed = not is_missing and (restored is put_back or before.top.kind != "folder")
        try:
            with self._territory.parent(place, make=is_needed) as parent:
                if self._until_ns is not None:
                    before = unless_later(
                        parent, before, self._until_ns, is_top_alone=restored is not put_back
                    )
                if restored(parent, before):
                    told[shown] = None
        except (FileNotFoundError, NotADirectoryError):
            if is_needed:
                told[f"{shown}{NOT_PUT_BACK}"] = None
        except (OSError, ToolError, CannotPutBack):
            told[f"{shown}{NOT_PUT_BACK}"] = None


def _bases(roots: tuple[Path, ...], workdir: Place) -> Iterator[Place]:
    """Each root, and the working folder with those above it, as far as they can be written."""
    for root in roots:
        yield place_of(root, ())
    whole = workdir.path
    above = max(
        (root for root in roots if whole.is_relative_to(root)),
        key=lambda root: len(root.parts),
        default=None,
    )
    if above is not None:
        parts = whole.relative_to(above).parts
        for depth in range(1, len(parts) + 1):
            yield place_of(above, parts[:depth])


def _too_many(shown: str) -> ToolError:
    return ToolError(
        ErrorCode.EXECUTION_ERROR,
        f"{shown} contains more than {MAX_SCANNED} names, so protected ones could not be "
        "restored; it was not run",
        "Tell the user: something has filled that folder.",
    )


def _is_store(entry: Entry) -> bool:
    """A folder of a repository in which git keeps what may be very much, and nothing that it runs."""
    if entry.name not in _STORES:
        return False
    try:
        os.stat("HEAD", dir_fd=entry.folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _restore_above(parent: Parent, before: Snapshot) -> bool:
    """A folder above may come and go. What is no folder is there only if it was."""
    now = thing_at(parent.descriptor, parent.name)
    if before.top.kind not in {"nothing", "folder"}:
        if now.kind == "folder":
            # It may hold what somebody needs.
            _move_aside(parent)
        return put_back_top(parent, before)
    if now.kind == "folder":
        missing = before.top.mode & _OWNER_BITS & ~now.mode
        return bool(missing) and put_back_top(parent, before)
    if now.kind == "nothing" or (now.kind == "file" and parent.name.casefold() != _REPOSITORY):
        return False
    remove_entry(parent.descriptor, parent.name)
    return True


def _put_back_head(parent: Parent, before: Snapshot) -> bool:
    """`git switch` rewrites it. Only what git would not accept is undone."""
    return not git_layout.is_head(parent.descriptor, parent.name) and put_back(parent, before)


def _layout_in(base: Place) -> frozenset[Place]:
    return frozenset(below(base, (name,)) for name in git_layout.parts_in(base.asked))


def _move_aside(parent: Parent) -> str:
    aside = f"{parent.name}.{secrets.token_hex(4)}.replaced"
    os.rename(parent.name, aside, src_dir_fd=parent.descriptor, dst_dir_fd=parent.descriptor)
    return aside
