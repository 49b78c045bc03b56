"""Tasks, questions, the event log and statistics."""

from dataclasses import asdict
from typing import Annotated
from urllib.parse import quote

from pydantic import Field

from interlock.core.errors import UserError
from interlock.db.driver import DbConnection
from interlock.gateway.methods.base import Count, Identifier, Method, MethodCall, Seq
from interlock.gateway.protocol import GatewayErrorCode, MethodParams, NoParams, RequestError
from interlock.gateway.services import Json
from interlock.log.hash_chain import now_us
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.stats import MAX_DAYS, DailyStats, TurnTotals, read_stats
from interlock.log.timeline import read_tail, read_timeline
from interlock.log.tree import event_json
from interlock.log.usage import CostOf, cost_json
from interlock.runtime.task_rows import TaskStatus, read_request_excerpts
from interlock.sessions.storable_message import require_session

MAX_TREE = 5000
MAX_REPORTED_FAULTS = 50


class TaskListParams(MethodParams):
    session_id: Identifier | None = None
    status: str | None = None
    limit: Count = 50


class TaskIdParams(MethodParams):
    task_id: Identifier


class TaskUndoParams(TaskIdParams):
    undo_id: Identifier | None = None


class QuestionListParams(MethodParams):
    session_id: Identifier | None = None
    closed: bool = False
    limit: Count = 50


class EventTreeParams(MethodParams):
    task_id: Identifier | None = None
    session_id: Identifier | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_TREE)] = 2000


class EventTailParams(MethodParams):
    session_id: Identifier | None = None
    after_seq: Seq = 0
    before_seq: Seq | None = None
    kinds: Annotated[list[Identifier], Field(max_length=50)] | None = None
    limit: Count = 200


class EventExportParams(MethodParams):
    session_id: Identifier | None = None


class StatsParams(MethodParams):
    days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = 30


async def list_tasks(call: MethodCall[TaskListParams]) -> Json:
    params = call.params
    status = None if params.status is None else _status(params.status)
    found = await call.services.tasks.list_tasks(
        session_id=params.session_id, status=status, limit=params.limit
    )
    asked = await call.services.database.read(lambda db: read_request_excerpts(db, found))
    return {"tasks": [asdict(task) | {"message": asked.get(task.id)} for task in found]}


def _status(name: str) -> TaskStatus:
    try:
        return TaskStatus(name)
    except ValueError:
        raise UserError(f"status: must be one of {', '.join(TaskStatus)}") from None


async def get_task(call: MethodCall[TaskIdParams]) -> Json:
    return {"task": asdict(await call.services.tasks.get(call.params.task_id))}


async def cancel_task(call: MethodCall[TaskIdParams]) -> Json:
    return {"task": asdict(await call.services.tasks.cancel(call.params.task_id, who=call.who))}


async def undo_task(call: MethodCall[TaskUndoParams]) -> Json:
    task = await call.services.tasks.get(call.params.task_id)
    return await call.services.undo(task.id, call.params.undo_id, call.who)


async def list_questions(call: MethodCall[QuestionListParams]) -> Json:
    params = call.params
    found = await call.services.questions.list_questions(
        session_id=params.session_id, include_closed=params.closed, limit=params.limit
    )
    return {"questions": [asdict(question) for question in found]}


async def tree(call: MethodCall[EventTreeParams]) -> Json:
    params, services = call.params, call.services
    session_id = params.session_id
    if params.task_id is not None:
        session_id = (await services.tasks.get(params.task_id)).session_id
    stream = session_id or SYSTEM_STREAM

    def read(connection: DbConnection) -> Json:
        _require_stream(connection, stream)
        told = read_timeline(
            connection,
            session_id=stream,
            task_id=params.task_id,
            limit=params.limit,
            cost_of=services.cost_of,
        )
        return {"roots": told.roots, "has_more": told.has_more}

    return await services.database.read(read)


async def tail(call: MethodCall[EventTailParams]) -> Json:
    params = call.params
    stream = params.session_id or SYSTEM_STREAM

    def read(connection: DbConnection) -> Json:
        _require_stream(connection, stream)
        found = read_tail(
            connection,
            stream,
            after_seq=params.after_seq,
            before_seq=params.before_seq,
            kinds=params.kinds or (),
            limit=params.limit,
        )
        return {"events": [event_json(stored) for stored in found]}

    return await call.services.database.read(read)


def _require_stream(connection: DbConnection, stream: str) -> None:
    if stream != SYSTEM_STREAM:
        require_session(connection, stream)


async def verify(call: MethodCall[NoParams]) -> Json:
    # Each verification reads the whole log. Reject a second one instead of letting it block smaller reads.
    if call.services.verifying.locked():
        raise RequestError(
            GatewayErrorCode.RATE_LIMITED, "the log is already being verified; try again in a moment"
        )
    async with call.services.verifying:
        report = await call.services.verify()
    return {
        "ok": report.ok,
        "events": report.events,
        "streams": report.streams,
        "messages": report.messages,
        "erased": report.erased,
        "problems": [str(fault) for fault in report.faults[:MAX_REPORTED_FAULTS]],
        "checkpoints": report.checkpoints,
        "signed": report.coverage.signed,
        "after_checkpoint": report.coverage.unchecked_events,
        "anchors": report.anchors,
        "after_anchor": report.coverage.unanchored_events,
        "notes": report.notes,
    }


async def export(call: MethodCall[EventExportParams]) -> Json:
    if call.params.session_id is None:
        return {"url": "/export/events.jsonl"}
    session = await call.services.sessions.get(call.params.session_id)
    return {"url": f"/export/events.jsonl?session_id={quote(session.id)}"}


async def stats(call: MethodCall[StatsParams]) -> Json:
    cost_of, days = call.services.cost_of, call.params.days
    found = await call.services.database.read(lambda db: read_stats(db, days=days, now_us=now_us()))
    return {
        "days": [_day(day, cost_of) for day in found.days],
        "denials_by_tool": dict(found.denials_by_tool),
        "errors_by_class": dict(found.errors_by_class),
        **{
            name: {owner: _totals(totals, cost_of) for owner, totals in shares.items()}
            for name, shares in (
                ("by_agent", found.by_agent),
                ("by_actor", found.by_actor),
                ("by_session", found.by_session),
            )
        },
    }


def _day(day: DailyStats, cost_of: CostOf) -> Json:
    counts = {"date": day.date, "tasks": day.tasks, "denials": day.denials, "errors": day.errors}
    return counts | _totals(day.totals, cost_of)


def _totals(totals: TurnTotals, cost_of: CostOf) -> Json:
    return {
        "turns": totals.turns,
        "calls": totals.calls,
        "input_tokens": totals.tokens.input_tokens,
        "output_tokens": totals.tokens.output_tokens,
        "seconds": totals.milliseconds / 1000,
        **cost_json(totals.by_model, cost_of),
    }


METHODS = (
    Method("tasks.list", TaskListParams, list_tasks, only_reads=True, is_stored=True),
    Method("tasks.get", TaskIdParams, get_task, only_reads=True, is_stored=True),
    Method("tasks.cancel", TaskIdParams, cancel_task),
    Method("tasks.undo", TaskUndoParams, undo_task),
    Method("questions.list", QuestionListParams, list_questions, only_reads=True, is_stored=True),
    Method("events.tree", EventTreeParams, tree, only_reads=True, is_stored=True, is_heavy=True),
    Method("events.tail", EventTailParams, tail, only_reads=True, is_stored=True, is_heavy=True),
    Method("events.verify", NoParams, verify, only_reads=True, is_heavy=True),
    Method("events.export", EventExportParams, export, only_reads=True),
    Method("stats.get", StatsParams, stats, only_reads=True, is_stored=True, is_heavy=True),
)
