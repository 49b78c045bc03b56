"""Restores protected names after a command that the kernel allowed to write next to them.

Landlock opens whole directories and cannot exclude a file in them. So before a command runs, a snapshot is
taken where protected names usually are: in each root, from the working directory up, and in nested
repositories. The directories above a protected name are included: another `.git`, or a symlink in its
place, brings other hooks.

Concurrent commands share `shared_snapshots.py`: a change by one of them must not become the
next one's snapshot. The next process restores what a killed one had to restore: everything that changed
until it died. Later changes are a person's, and stay.
"""

import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.logging import StructuredLogger
from interlock.sandbox import bare_repositories
from interlock.sandbox.directory_walk import DirectoryEntry, walk
from interlock.sandbox.globs import Glob, expand_braces
from interlock.sandbox.nested_repositories import find_directories_with
from interlock.sandbox.paths import OpenParent, PathAccess, PathResolver, ResolvedPath, quote_path
from interlock.sandbox.profile import SandboxProfile
from interlock.sandbox.protected import GIT_HEAD
from interlock.sandbox.protected_locations import (
    is_path_missing,
    path_below,
    resolved_path_of,
    was_removed_since,
)
from interlock.sandbox.remove_untrusted_tree import remove_entry
from interlock.sandbox.shared_snapshots import (
    Key,
    OrphanedSnapshot,
    PatternScan,
    ProtectedStateRegistry,
    ReportRestored,
    ignore_restored,
)
from interlock.sandbox.tree_snapshot import (
    CannotRestore,
    SnapshotBudget,
    TreeSnapshot,
    read_file_state,
    restore_snapshot,
    restore_top_entry,
    take_snapshot,
    without_later_changes,
)

MAX_SCANNED = 50_000
NOT_PUT_BACK = " (it could not be restored)"
_PATTERNED = frozenset("*?[")
_OWNER_BITS = 0o700
# As a file, it names the location of the repository.
_REPOSITORY = ".git"
_STORES = frozenset({"objects", "refs", "logs", "lfs"})

_log = StructuredLogger(__name__)

_MEMORY = ProtectedStateRegistry()


# Each process has a heartbeat every second. When it is killed, so are its commands, a moment later.
_AFTERWARDS_NS = 10 * 10**9


def share_snapshots(folder: Path, report: ReportRestored = ignore_restored) -> None:
    """Share snapshots with all processes that use this directory, which no command can reach.

    What a killed one left is restored now, or before the next command; `report` is called with the paths.
    """
    _MEMORY.share(folder, report)
    try:
        if _MEMORY.has_orphans():
            with _MEMORY.turn():
                _put_back_what_was_left()
    except (OSError, ToolError) as error:
        _log.error("protected_names_not_looked_at", error=str(error))


def _put_back_what_was_left() -> None:
    """Within a turn."""
    for left in _MEMORY.left():
        roots = tuple({place.root for place in left.places.values() if place.root.is_dir()})
        told = ProtectedSnapshot.from_orphan(left, roots).restore_orphaned() if roots else []
        if told:
            _log.error(
                "protected_names_put_back", paths=told, reason="a process was killed with its command"
            )
            _MEMORY.report(told)
        _MEMORY.discard(left)


@dataclass(slots=True)
class _SnapshotState:
    """By path: directories above protected names, the protected names, and matches of patterns.

    `heads` are `.git/HEAD`, which git rewrites. `layouts` are the parts of a repository in a directory
    itself. `tops` are nested repositories. If one was removed, its protected names may go with it.
    """

    above: dict[ResolvedPath, TreeSnapshot | None] = field(default_factory=dict)
    protected: dict[ResolvedPath, TreeSnapshot | None] = field(default_factory=dict)
    heads: dict[ResolvedPath, TreeSnapshot | None] = field(default_factory=dict)
    layouts: list[PatternScan] = field(default_factory=list)
    scans: list[PatternScan] = field(default_factory=list)
    tops: list[ResolvedPath] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)


class ProtectedSnapshot:
    """Call `remember` before a command and `restore` after it, whatever the outcome of either."""

    def __init__(self, profile: SandboxProfile, workdir: ResolvedPath) -> None:
        roots = profile.writable_roots
        # Without protected names: this is what protects them.
        self._resolver = PathResolver(SandboxProfile(roots, roots))
        names = [each for name in profile.protected_names for each in expand_braces(name)]
        self._names = [Path(name).parts for name in names]
        self._roots = roots
        self._bases = list(dict.fromkeys(_bases(roots, workdir)))
        self._before = _SnapshotState()
        self._found: dict[str, ResolvedPath | None] = {}
        self._budget = SnapshotBudget()
        self._is_over = False
        # Later changes are not restored.
        self._until_ns: int | None = None

    @classmethod
    def from_orphan(cls, left: OrphanedSnapshot, roots: tuple[Path, ...]) -> "ProtectedSnapshot":
        guard = cls(SandboxProfile(roots, roots), resolved_path_of(roots[0], ()))
        guard._until_ns = left.until_ns + _AFTERWARDS_NS
        before = guard._before
        for key, place in left.places.items():
            if place.root not in roots:
                continue
            match key[0], left.values.get(key):
                case "scan", PatternScan() as scan:
                    before.scans.append(scan)
                case "layout", PatternScan() as scan:
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

    def restore_orphaned(self) -> list[str]:
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
        """Restore; returns the paths that had changed. One that could not be restored is marked."""
        if not self._roots:
            return []
        with _MEMORY.last_turn():
            self._is_over = True
            before, self._before = self._before, _SnapshotState()
            told: dict[str, None] = {}
            try:
                self._put_all_back(before, told)
            finally:
                for key in before.keys:
                    _MEMORY.release(key)
        return list(told)

    def _put_all_back(self, before: _SnapshotState, told: dict[str, None]) -> None:
        gone = [top.path for top in before.tops if is_path_missing(top)]
        for places in (before.above, before.protected, before.heads) if gone else ():
            for place in [one for one in places if any(map(one.path.is_relative_to, gone))]:
                del places[place]
        for place, above in before.above.items():
            self._try(told, place, above, _restore_above)
        for place, snapshot in before.protected.items():
            self._try(told, place, snapshot, restore_snapshot)
        for place, snapshot in before.heads.items():
            self._try(told, place, snapshot, _put_back_head)
        for scan in before.layouts:
            self._undo_layout(told, scan)
        for scan in before.scans:
            self._remove_new_matches(told, scan)

    def _shown(self, place: ResolvedPath) -> str:
        """The full path for a dead process: its working directory is unknown."""
        if self._until_ns is None:
            return self._resolver.shown(place)
        whole = str(place.path)
        return whole if whole.isprintable() else quote_path(whole)

    # -- remembering --

    def _remember_name(self, base: ResolvedPath, parts: tuple[str, ...]) -> None:
        """Snapshot the directories above it, the name itself and, for a pattern, all matches."""
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
        scan: PatternScan = _MEMORY.take(
            key, lambda: PatternScan(place, pattern, self._matches(place, pattern)), place
        )
        self._before.keys.append(key)
        self._before.scans.append(scan)
        if scan.found is None and plain:
            # So many matches occur only if a command wants to hide something.
            raise _too_many(self._shown(place))
        for found in scan.found or ():
            self._take(self._before.protected, "protected", found)

    def _remember_layout(self, base: ResolvedPath) -> None:
        """Record the parts of a repository in the directory itself; if it is one, also what git runs."""
        if not any(parts[0] == _REPOSITORY for parts in self._names):
            return
        key: Key = ("layout", base.asked)
        scan: PatternScan = _MEMORY.take(key, lambda: PatternScan(base, "", _layout_in(base)), base)
        self._before.keys.append(key)
        self._before.layouts.append(scan)
        if bare_repositories.is_repository({place.name for place in scan.found or ()}):
            for name in bare_repositories.CONTROLS:
                self._take(self._before.protected, "protected", self._place(base, (name,)))

    def _remember_nested(self, root: Path) -> None:
        """Snapshot nested repositories. Names without a directory are trusted only further up."""
        firsts = {parts[0] for parts in self._names if len(parts) > 1 and not _PATTERNED & set(parts[0])}
        known = {base.path for base in self._bases}
        for folder, first in find_directories_with(root, firsts):
            base = resolved_path_of(root, folder)
            if base.path in known:
                continue
            top = path_below(base, (first,))
            self._before.tops.append(top)
            self._before.keys.append(("top", top.asked))
            _MEMORY.take(("top", top.asked), lambda: None, top)
            self._remember_layout(base)
            for parts in self._names:
                if parts[0] == first:
                    self._remember_name(base, parts)

    def _take(
        self, places: dict[ResolvedPath, TreeSnapshot | None], kind: str, place: ResolvedPath | None
    ) -> None:
        if place is None or place in places:
            return
        key: Key = (kind, place.asked)
        places[place] = _MEMORY.take(key, lambda: self._look(place, is_above=kind == "above"), place)
        self._before.keys.append(key)

    def _place(self, base: ResolvedPath, parts: tuple[str, ...]) -> ResolvedPath | None:
        """The resolved path; None if symlinks lead outside the writable roots."""
        path = "/".join((base.asked, *parts))
        if path not in self._found:
            # Most names do not exist, and then no symlink is on the path.
            begins = not is_path_missing(path_below(base, parts[:1]))
            self._found[path] = self._find(path) if begins else path_below(base, parts)
        return self._found[path]

    def _find(self, path: str) -> ResolvedPath | None:
        try:
            found = self._resolver.find(path, PathAccess.write, follow=False)
        except (OSError, ToolError):
            return None
        # In one spelling, so that all commands share it.
        return resolved_path_of(found.root, found.parts)

    def _look(self, place: ResolvedPath, *, is_above: bool) -> TreeSnapshot | None:
        """None where it cannot be looked at."""
        if is_path_missing(place):
            return TreeSnapshot()
        try:
            with self._resolver.parent(place) as parent:
                if is_above:
                    return TreeSnapshot(read_file_state(parent.descriptor, parent.name, self._budget))
                return take_snapshot(parent, self._budget)
        except (FileNotFoundError, NotADirectoryError):
            return TreeSnapshot()
        except (OSError, ToolError):
            return None

    def _matches(self, top: ResolvedPath, pattern: str) -> frozenset[ResolvedPath] | None:
        """The matches of a pattern below a path, without descending into them; None if too many."""
        if is_path_missing(top):
            return frozenset()
        glob, found = Glob(pattern), set()
        try:
            with self._resolver.folder(top) as folder:
                entries = walk(
                    folder, descend=lambda entry: not (glob.matches_whole(entry.parts) or _is_store(entry))
                )
                for count, entry in enumerate(entries):
                    if count >= MAX_SCANNED:
                        return None
                    if glob.matches_whole(entry.parts):
                        found.add(path_below(top, entry.parts))
        except (OSError, ToolError):
            return frozenset(found)
        return frozenset(found)

    # -- restoring --

    def _remove_new_matches(self, told: dict[str, None], scan: PatternScan) -> None:
        if scan.found is None:
            return
        now = self._matches(scan.place, scan.pattern)
        if now is None:
            told[f"{self._shown(scan.place)}{NOT_PUT_BACK}"] = None
            return
        for place in sorted(now - scan.found, key=lambda place: place.parts):
            self._try(told, place, TreeSnapshot(), restore_snapshot)

    def _undo_layout(self, told: dict[str, None], scan: PatternScan) -> None:
        """Undo turning a directory into a repository: move the newest parts aside.

        They are not removed: a person may have asked for that repository.
        """
        before, now = scan.found or frozenset(), _layout_in(scan.place)
        if bare_repositories.is_repository({place.name for place in before}):
            return
        added = sorted(now - before, key=lambda place: bare_repositories.PARTS.index(place.name))
        while bare_repositories.is_repository({place.name for place in now}):
            place = added.pop(0)
            now -= {place}
            shown = self._shown(place)
            try:
                with self._resolver.parent(place) as parent:
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
        place: ResolvedPath,
        before: TreeSnapshot | None,
        restored: Callable[[OpenParent, TreeSnapshot], bool],
    ) -> None:
        is_missing = before is not None and before.top.kind == "nothing"
        if is_missing and is_path_missing(place):
            return
        if self._until_ns is not None and was_removed_since(place, self._until_ns):
            return
        shown = self._shown(place)
        if before is None:
            if self._look(place, is_above=True) is not None:
                told[f"{shown}{NOT_PUT_BACK}"] = None
            return
        is_needed = not is_missing and (restored is restore_snapshot or before.top.kind != "folder")
        try:
            with self._resolver.parent(place, make=is_needed) as parent:
                if self._until_ns is not None:
                    before = without_later_changes(
                        parent, before, self._until_ns, is_top_alone=restored is not restore_snapshot
                    )
                if restored(parent, before):
                    told[shown] = None
        except (FileNotFoundError, NotADirectoryError):
            if is_needed:
                told[f"{shown}{NOT_PUT_BACK}"] = None
        except (OSError, ToolError, CannotRestore):
            told[f"{shown}{NOT_PUT_BACK}"] = None


def _bases(roots: tuple[Path, ...], workdir: ResolvedPath) -> Iterator[ResolvedPath]:
    """Each root, and the writable directories from the working directory up."""
    for root in roots:
        yield resolved_path_of(root, ())
    whole = workdir.path
    above = max(
        (root for root in roots if whole.is_relative_to(root)),
        key=lambda root: len(root.parts),
        default=None,
    )
    if above is not None:
        parts = whole.relative_to(above).parts
        for depth in range(1, len(parts) + 1):
            yield resolved_path_of(above, parts[:depth])


def _too_many(shown: str) -> ToolError:
    return ToolError(
        ErrorCode.EXECUTION_ERROR,
        f"{shown} contains more than {MAX_SCANNED} names, so protected ones could not be "
        "restored; it was not run",
        "Tell the user: something has filled that folder.",
    )


def _is_store(entry: DirectoryEntry) -> bool:
    """Whether it is a repository's data directory: maybe large, with nothing that git runs."""
    if entry.name not in _STORES:
        return False
    try:
        os.stat("HEAD", dir_fd=entry.folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _restore_above(parent: OpenParent, before: TreeSnapshot) -> bool:
    """Restore a directory above.

    Directories may come and go; other entries only stay if they were there.
    """
    now = read_file_state(parent.descriptor, parent.name)
    if before.top.kind not in {"nothing", "folder"}:
        if now.kind == "folder":
            # It may contain data that a person needs.
            _move_aside(parent)
        return restore_top_entry(parent, before)
    if now.kind == "folder":
        missing = before.top.mode & _OWNER_BITS & ~now.mode
        return bool(missing) and restore_top_entry(parent, before)
    if now.kind == "nothing" or (now.kind == "file" and parent.name.casefold() != _REPOSITORY):
        return False
    remove_entry(parent.descriptor, parent.name)
    return True


def _put_back_head(parent: OpenParent, before: TreeSnapshot) -> bool:
    """`git switch` rewrites it. Only what git would not accept is undone."""
    return not bare_repositories.is_valid_head(parent.descriptor, parent.name) and restore_snapshot(
        parent, before
    )


def _layout_in(base: ResolvedPath) -> frozenset[ResolvedPath]:
    return frozenset(path_below(base, (name,)) for name in bare_repositories.git_parts_in(base.asked))


def _move_aside(parent: OpenParent) -> str:
    aside = f"{parent.name}.{secrets.token_hex(4)}.replaced"
    os.rename(parent.name, aside, src_dir_fd=parent.descriptor, dst_dir_fd=parent.descriptor)
    return aside
