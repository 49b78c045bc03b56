"""What happened: tasks, questions, the log and its figures."""

from dataclasses import asdict
from typing import Annotated
from urllib.parse import quote

from pydantic import Field

from interlock.events.catalog import SYSTEM_STREAM
from interlock.events.chain import now_us
from interlock.events.stats import MAX_DAYS, Day, read_stats
from interlock.events.timeline import read_tail, read_timeline
from interlock.events.tree import event_json
from interlock.events.verify import verify as verify_log
from interlock.gateway.methods.base import Call, Count, Identity, Method, Seq
from interlock.gateway.protocol import Code, NoParams, Params, RequestError
from interlock.gateway.services import Json, Services
from interlock.infra.errors import PersonError
from interlock.session.messages import must_be_there
from interlock.store.driver import Connection
from interlock.worker.rows import TaskStatus, what_was_asked

MAX_TREE = 5000
MAX_FAULTS = 50


class TasksList(Params):
    session_id: Identity | None = None
    status: str | None = None
    limit: Count = 50


class TaskOnly(Params):
    task_id: Identity


class TaskUndo(TaskOnly):
    undo_id: Identity | None = None


class QuestionsList(Params):
    session_id: Identity | None = None
    closed: bool = False
    limit: Count = 50


class EventsTree(Params):
    task_id: Identity | None = None
    session_id: Identity | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_TREE)] = 2000


class EventsTail(Params):
    session_id: Identity | None = None
    after_seq: Seq = 0
    before_seq: Seq | None = None
    kinds: Annotated[list[Identity], Field(max_length=50)] | None = None
    limit: Count = 200


class EventsExport(Params):
    session_id: Identity | None = None


class StatsGet(Params):
    days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = 30


async def list_tasks(call: Call[TasksList]) -> Json:
    params = call.params
    status = None if params.status is None else _status(params.status)
    found = await call.services.tasks.list_tasks(
        session_id=params.session_id, status=status, limit=params.limit
    )
    asked = await call.services.database.read(lambda db: what_was_asked(db, found))
    return {"tasks": [asdict(task) | {"message": asked.get(task.id)} for task in found]}


def _status(name: str) -> TaskStatus:
    try:
        return TaskStatus(name)
    except ValueError:
        raise PersonError(f"status: must be one of {', '.join(TaskStatus)}") from None


async def get_task(call: Call[TaskOnly]) -> Json:
    return {"task": asdict(await call.services.tasks.get(call.params.task_id))}


async def cancel_task(call: Call[TaskOnly]) -> Json:
    return {"task": asdict(await call.services.tasks.cancel(call.params.task_id, who=call.who))}


async def undo_task(call: Call[TaskUndo]) -> Json:
    task = await call.services.tasks.get(call.params.task_id)
    return await call.services.undo(task.id, call.params.undo_id, call.who)


async def list_questions(call: Call[QuestionsList]) -> Json:
    params = call.params
    found = await call.services.questions.list_questions(
        session_id=params.session_id, include_closed=params.closed, limit=params.limit
    )
    return {"questions": [asdict(question) for question in found]}


async def tree(call: Call[EventsTree]) -> Json:
    params, services = call.params, call.services
    session_id = params.session_id
    if params.task_id is not None:
        session_id = (await services.tasks.get(params.task_id)).session_id
    stream = session_id or SYSTEM_STREAM

    def read(connection: Connection) -> Json:
        _must_be_there(connection, stream)
        told = read_timeline(
            connection,
            session_id=stream,
            task_id=params.task_id,
            limit=params.limit,
            cost_of=services.cost_of,
        )
        return {"roots": told.roots, "has_more": told.has_more}

    return await services.database.read(read)


async def tail(call: Call[EventsTail]) -> Json:
    params = call.params
    stream = params.session_id or SYSTEM_STREAM

    def read(connection: Connection) -> Json:
        _must_be_there(connection, stream)
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


def _must_be_there(connection: Connection, stream: str) -> None:
    if stream != SYSTEM_STREAM:
        must_be_there(connection, stream)


async def verify(call: Call[NoParams]) -> Json:
    # Each looks at the whole log. A second one is not kept waiting beside others that look at less.
    if call.services.verifying.locked():
        raise RequestError(Code.RATE_LIMITED, "the log is already being verified; try again in a moment")
    async with call.services.verifying:
        report = await call.services.database.read(verify_log)
    return {
        "ok": report.ok,
        "events": report.events,
        "streams": report.streams,
        "messages": report.messages,
        "erased": report.erased,
        "problems": [str(fault) for fault in report.faults[:MAX_FAULTS]],
    }


async def export(call: Call[EventsExport]) -> Json:
    if call.params.session_id is None:
        return {"url": "/export/events.jsonl"}
    session = await call.services.sessions.get(call.params.session_id)
    return {"url": f"/export/events.jsonl?session_id={quote(session.id)}"}


async def stats(call: Call[StatsGet]) -> Json:
    services, days = call.services, call.params.days
    found = await services.database.read(lambda db: read_stats(db, days=days, now_us=now_us()))
    return {
        "days": [_day(services, day) for day in found.days],
        "denials_by_tool": dict(found.denials_by_tool),
        "errors_by_class": dict(found.errors_by_class),
    }


def _day(services: Services, day: Day) -> Json:
    costs = [services.cost_of(model, used.input, used.output) for model, used in day.by_model.items()]
    known = [cost for cost in costs if cost is not None]
    return {
        "date": day.date,
        "turns": day.turns,
        "tasks": day.tasks,
        "calls": day.calls,
        "denials": day.denials,
        "errors": day.errors,
        "input_tokens": day.input_tokens,
        "output_tokens": day.output_tokens,
        # Unknown as soon as a model without a price had a part in it; the rest of it is known all the same.
        "cost": float(sum(known)) if len(known) == len(costs) else None,
        "cost_at_least": float(sum(known)),
    }


METHODS = (
    Method("tasks.list", TasksList, list_tasks, only_reads=True, is_stored=True),
    Method("tasks.get", TaskOnly, get_task, only_reads=True, is_stored=True),
    Method("tasks.cancel", TaskOnly, cancel_task),
    Method("tasks.undo", TaskUndo, undo_task),
    Method("questions.list", QuestionsList, list_questions, only_reads=True, is_stored=True),
    Method("events.tree", EventsTree, tree, only_reads=True, is_stored=True, is_heavy=True),
    Method("events.tail", EventsTail, tail, only_reads=True, is_stored=True, is_heavy=True),
    Method("events.verify", NoParams, verify, only_reads=True, is_heavy=True),
    Method("events.export", EventsExport, export, only_reads=True),
    Method("stats.get", StatsGet, stats, only_reads=True, is_stored=True, is_heavy=True),
)
