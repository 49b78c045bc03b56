"""The content of a message in a chat."""

from dataclasses import dataclass, replace

from interlock.channels.telegram.markdown import TextEntity, render_markdown


@dataclass(frozen=True, slots=True)
class MessageButton:
    """A button below a message; pressing it sends `data`, at most 64 bytes."""

    label: str
    data: str


ButtonRows = tuple[tuple[MessageButton, ...], ...]


@dataclass(frozen=True, slots=True)
class MessageContent:
    text: str
    entities: tuple[TextEntity, ...] = ()
    buttons: ButtonRows = ()
    # Ask Telegram to make the person's next message a reply to this one.
    wants_reply: bool = False

    @classmethod
    def of(cls, markdown: str, *, buttons: ButtonRows = ()) -> "MessageContent":
        shown = render_markdown(markdown)
        return cls(shown.text, shown.entities, buttons)

    def plain(self) -> "MessageContent":
        return replace(self, entities=())
