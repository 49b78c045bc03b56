"""What a message in a chat looks like."""

from dataclasses import dataclass, replace

from interlock.channels.telegram.markdown import TextEntity, render_markdown


@dataclass(frozen=True, slots=True)
class MessageButton:
    """Below a message; pressing it sends `data`, at most 64 bytes."""

    label: str
    data: str


ButtonRows = tuple[tuple[MessageButton, ...], ...]


@dataclass(frozen=True, slots=True)
class MessageContent:
    text: str
    entities: tuple[TextEntity, ...] = ()
    buttons: ButtonRows = ()
    # Have the person's next words be an answer to this message.
    wants_reply: bool = False

    @classmethod
    def of(cls, markdown: str, *, buttons: ButtonRows = ()) -> "MessageContent":
        shown = render_markdown(markdown)
        return cls(shown.text, shown.entities, buttons)

    def plain(self) -> "MessageContent":
        return replace(self, entities=())
