"""What the log of a session tells, as frames. The last one that an event brings carries its number."""

from interlock.following.pieces import PieceType, chunk, pieces_of
from interlock.following.told import Told
from interlock.gateway.protocol import Frame, make_frame


def frames_of(told: Told, shown: str = "") -> list[Frame]:
    """`shown` is the part of the running answer that was sent before it was stored."""
    pieces = list(pieces_of(told, shown))
    session_id, task, last = told.header.stream, told.header.task, len(pieces) - 1
    return [
        make_frame(kind, data, session_id=session_id, seq=told.seq if place == last else None, task_id=task)
        for place, (kind, data) in enumerate(pieces)
    ]


def live_frame(session_id: str, task_id: str, offset: int, text: str) -> Frame:
    """Text that is not stored yet."""
    data = chunk(text, offset, task_id)
    return make_frame(PieceType.stream_chunk, data, session_id=session_id, task_id=task_id)
