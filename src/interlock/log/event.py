"""What every event is."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A fact. Its fields are its payload: facts that stay for good, and content that can be erased."""

    kind: ClassVar[str]
    # The fields with texts, arguments, results and paths. Erased, each of them reads None.
    erasable: ClassVar[tuple[str, ...]] = ()
    # The fields that hold somebody else's words and were not made safe before. Unless a kind says which,
    # all of them are searched for secrets.
    outside: ClassVar[tuple[str, ...] | None] = None

    def payload(self) -> dict[str, Any]:
        names, read = field_reader_of(type(self))
        return dict(zip(names, read(self), strict=True))


FieldReader = tuple[tuple[str, ...], Callable[[Event], tuple[Any, ...]]]
_READERS: dict[type[Event], FieldReader] = {}


def field_reader_of(event: type[Event]) -> FieldReader:
    """A kind's field names and the quickest way to all their values."""
    known = _READERS.get(event)
    if known is None:
        known = _READERS[event] = _reader(event)
    return known


def _reader(event: type[Event]) -> FieldReader:
    names = tuple(member.name for member in fields(event))
    if len(names) == 1:
        read = attrgetter(names[0])
        return names, lambda fact: (read(fact),)
    return names, attrgetter(*names)
