"""The error of a server, as the rest of a sentence that begins with its name."""

from interlock.core.errors import InterlockError


class McpServerError(InterlockError):
    """`is_answer`: the server said so itself, and can be asked again."""

    def __init__(self, reason: str, *, is_answer: bool = False) -> None:
        super().__init__(reason)
        self.is_answer = is_answer
