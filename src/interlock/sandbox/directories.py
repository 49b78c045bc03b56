"""Operations on directories: opening, creating parents, and refusing to move or remove some."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.files import open_beneath
from interlock.sandbox.directory_walk import MAX_DEPTH, DirectoryEntry, EntryKind, walk
from interlock.sandbox.paths import OpenParent, PathResolver, ResolvedPath


@contextmanager
def open_directory(parent: OpenParent) -> Iterator[int]:
    descriptor = open_beneath(parent.descriptor, parent.name, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def create_parents(resolver: PathResolver, place: ResolvedPath) -> Iterator[OpenParent]:
    """The parent directory of a path, created if missing; removed again if the work in it fails."""
    made = 0
    try:
        with resolver.parent(place, make=True) as parent:
            made = parent.made
            yield parent
    except BaseException:
        remove_created_directories(resolver, place, made)
        raise


def remove_created_directories(resolver: PathResolver, place: ResolvedPath, count: int) -> None:
    """Remove directories that were created only for a file, if they are empty."""
    for depth in range(min(count, len(place.parts) - 1)):
        folder = replace(place, parts=place.parts[: len(place.parts) - 1 - depth])
        with suppress(OSError, ToolError), resolver.parent(folder) as parent:
            os.rmdir(parent.name, dir_fd=parent.descriptor)


def refuse_protected_inside(
    resolver: PathResolver, place: ResolvedPath, *, moved_to: ResolvedPath | None = None
) -> None:
    """Refuse if the directory contains protected names, under its old or its new path."""
    with resolver.parent(place) as parent:
        try:
            folder = open_beneath(parent.descriptor, parent.name, os.O_RDONLY | os.O_DIRECTORY)
        except NotADirectoryError:
            return
    try:
        for entry in walk(folder):
            for whole in (place, moved_to):
                if whole is not None:
                    resolver.refuse_protected_below(whole, entry.parts)
            if moved_to is not None:
                refuse_inaccessible(entry, os.R_OK | os.X_OK, "so it is not known what would be moved")
                _refuse_depth(entry)
    finally:
        os.close(folder)


def refuse_inaccessible(entry: DirectoryEntry, needed: int, consequence: str) -> None:
    """Refuse a directory that cannot be listed, or from which nothing can be removed."""
    if entry.kind is EntryKind.folder and not os.access(
        entry.name, needed, dir_fd=entry.folder, effective_ids=True, follow_symlinks=False
    ):
        raise ToolError(
            ErrorCode.EXECUTION_ERROR,
            f"Interlock's account has no permission for {entry.name} inside it; {consequence}",
            "Choose something else, or tell the user.",
            is_an_answer=True,
        )


def _refuse_depth(entry: DirectoryEntry) -> None:
    if entry.kind is EntryKind.folder and len(entry.parts) >= MAX_DEPTH:
        raise ToolError(
            ErrorCode.EXECUTION_ERROR,
            f"folders are nested more than {MAX_DEPTH} deep, too deep to check",
            "Move its parts one by one, or tell the user.",
            is_an_answer=True,
        )
