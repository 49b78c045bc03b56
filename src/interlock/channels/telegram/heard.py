"""What a session tells, in the form that chats are told it."""

from interlock.following.hub import Telling
from interlock.following.pieces import Piece, PieceType, chunk, pieces_of
from interlock.following.told import Told
from interlock.infra.records import dataclass


@dataclass(frozen=True, slots=True)
class Heard:
    """A piece, and the task that it is about. Text that is not stored yet has no number."""

    task_id: str | None
    piece: Piece
    seq: int | None = None


def of_event(told: Told, shown: str) -> list[Heard]:
    return [Heard(told.header.task, piece, told.seq) for piece in pieces_of(told, shown)]


def of_text(_session_id: str, task_id: str, offset: int, text: str) -> Heard:
    return Heard(task_id, (PieceType.stream_chunk, chunk(text, offset, task_id)))


TELLING: Telling[Heard] = Telling(of_event, of_text)
