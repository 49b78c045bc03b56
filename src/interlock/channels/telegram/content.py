"""What a message in a chat looks like."""

from dataclasses import replace

from interlock.channels.telegram.rendering import Entity, rendered
from interlock.infra.records import dataclass


@dataclass(frozen=True, slots=True)
class Button:
    """Below a message; pressing it sends `data`, at most 64 bytes."""

    label: str
    data: str


Rows = tuple[tuple[Button, ...], ...]


@dataclass(frozen=True, slots=True)
class Content:
    text: str
    entities: tuple[Entity, ...] = ()
    buttons: Rows = ()
    # Have the person's next words be an answer to this message.
    wants_reply: bool = False

    @classmethod
    def of(cls, markdown: str, *, buttons: Rows = ()) -> "Content":
        shown = rendered(markdown)
        return cls(shown.text, shown.entities, buttons)

    def plain(self) -> "Content":
        return replace(self, entities=())
