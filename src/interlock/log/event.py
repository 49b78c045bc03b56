"""The base class of all events."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

# The events of turns and calls that go well. All others are milestones.
FREQUENT_KINDS = ("turn.completed", "tool_call.started", "tool_call.completed")
# The condition of the indexes by task and kind (db/migrations/sql/0001_tables.sql). SQLite uses them for a
# statement only if it has the same one.
IS_MILESTONE = " AND ".join(f"kind <> '{kind}'" for kind in FREQUENT_KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A fact. Its fields are its payload: permanent facts, and content that can be erased."""

    kind: ClassVar[str]
    # The fields with texts, arguments, results and paths. After an erasure each is None.
    erasable: ClassVar[tuple[str, ...]] = ()
    # The fields with untrusted text that is not redacted yet. None redacts all fields.
    outside: ClassVar[tuple[str, ...] | None] = None

    @property
    def is_message(self) -> bool:
        """Whether its content is a message of the transcript."""
        return False

    @property
    def searchable_text(self) -> str:
        """The text by which people find the event, redacted; it is erased with the content."""
        return ""

    def payload(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in field_names(type(self))}


_FIELD_NAMES: dict[type[Event], tuple[str, ...]] = {}


def field_names(event: type[Event]) -> tuple[str, ...]:
    names = _FIELD_NAMES.get(event)
    if names is None:
        names = _FIELD_NAMES[event] = tuple(member.name for member in fields(event))
    return names
