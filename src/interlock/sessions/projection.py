"""The rows of the table `sessions`, as they follow from the events of each session."""

from interlock.log.event import Event
from interlock.log.hash_chain import EventHeader
from interlock.log.kinds import (
    SessionArchived,
    SessionCreated,
    SessionDeleted,
    SessionModeChanged,
    SessionModelChanged,
    SessionRenamed,
)
from interlock.log.projections import ProjectedRow, Projection


def _evolve(row: ProjectedRow | None, event: Event, header: EventHeader) -> ProjectedRow | None:
    if isinstance(event, SessionCreated):
        return {
            "id": header.stream,
            "kind": event.session_kind,
            "title": event.title,
            "opened_by": event.opened_by,
            "created_us": header.time_us,
            "archived_us": None,
            "deleted_us": None,
            "agent": event.agent or None,
            "model": event.model or None,
            "mode": event.mode,
        }
    if row is None:
        return None
    match event:
        case SessionModeChanged(to_mode=mode):
            return row | {"mode": mode}
        case SessionModelChanged(to_model=model):
            return row | {"model": model or None}
        case SessionRenamed(title=title):
            return row | {"title": title}
        case SessionArchived(archived=archived):
            return row | {"archived_us": header.time_us if archived else None}
        case SessionDeleted():
            return row | {"deleted_us": header.time_us}
        case _:
            return row


SESSIONS = Projection(
    table="sessions",
    noun="session",
    key=("id",),
    columns=(
        *("kind", "title", "opened_by", "created_us", "archived_us", "deleted_us", "agent", "model"),
        "mode",
    ),
    kinds=(
        SessionCreated,
        SessionModeChanged,
        SessionModelChanged,
        SessionRenamed,
        SessionArchived,
        SessionDeleted,
    ),
    rows_of=lambda _event, header: [{"id": header.stream}],
    evolve=_evolve,
    stream_column="id",
    content={"title": ""},
    # Retention erases titles from events alone: people still find their sessions.
    outlasting=("title",),
)
