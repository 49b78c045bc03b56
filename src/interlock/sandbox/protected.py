"""Names that nothing may write, even in a writable directory, in every spelling."""

import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from interlock.sandbox.globs import ANY_DEPTH, Glob, expand_braces

GIT_HEAD = (".git", "HEAD")


@dataclass(frozen=True, slots=True)
class ProtectedName:
    """A protected name: a pattern for its path, and the directories it needs above it.

    `git_rewrites` is True for `.git/HEAD`, which `git switch` in a command changes: its content is checked.
    """

    name: str
    anywhere: Glob
    first: str | None
    above: frozenset[tuple[str, ...]]
    git_rewrites: bool = False

    def covers(self, parts: tuple[str, ...]) -> bool:
        """Whether a path of folded names is it, is inside it, or is one of the directories above it.

        `.git` as a file, or as another directory, brings other hooks: nothing may replace it.
        """
        if self.first is not None and self.first not in parts:
            return False
        return self.anywhere.matches_whole(parts) or any(
            parts[-len(folders) :] == folders for folders in self.above
        )


@lru_cache(maxsize=64)
def parse_protected_names(names: tuple[str, ...]) -> tuple[ProtectedName, ...]:
    return tuple(_protection(name, each) for name in names for each in expand_braces(name))


def _protection(name: str, pattern: str) -> ProtectedName:
    parts = [fold_name(part) for part in pattern.split("/") if part]
    while parts[:1] == [ANY_DEPTH]:
        # Any depth is implied.
        parts.pop(0)
    plain = 0
    while plain < len(parts) and not set(parts[plain]) & set("*?["):
        plain += 1
    return ProtectedName(
        name=name,
        anywhere=Glob("/".join((ANY_DEPTH, *parts, ANY_DEPTH)), ignore_case=True),
        first=parts[0] if plain else None,
        above=frozenset(tuple(parts[:count]) for count in range(1, min(plain + 1, len(parts)))),
        git_rewrites=parts == [fold_name(part) for part in GIT_HEAD],
    )


def fold_name(name: str) -> str:
    """A name as the most lenient file system compares it, so that no spelling is missed.

    Besides case, some file systems ignore invisible characters, and some trailing dots and spaces.
    """
    if not name.isascii():
        whole = unicodedata.normalize("NFD", name.casefold())
        name = "".join(character for character in whole if not _is_ignorable(character))
    return name.casefold().rstrip(". ")


def _is_ignorable(character: str) -> bool:
    return (
        unicodedata.category(character) == "Cf"
        or "\ufe00" <= character <= "\ufe0f"
        or character == "\u034f"
    )
