"""Sessions: create, list, follow, search, change and archive them."""

from dataclasses import asdict
from typing import Annotated, Literal
from urllib.parse import quote

import orjson
from pydantic import Field

from interlock.config.modes import ToolMode, parse_mode
from interlock.core.errors import UserError
from interlock.db.driver import DbConnection
from interlock.feed.entries import read_entries
from interlock.gateway.frame_encoding import frames_of_entry
from interlock.gateway.methods.base import (
    MAX_PAGE_CHARS,
    PAGE,
    Count,
    Identifier,
    Method,
    MethodCall,
    Seq,
    listed_sessions,
    session_json,
)
from interlock.gateway.methods.chat import follow
from interlock.gateway.protocol import MethodParams, NoParams
from interlock.gateway.services import GatewayServices, Json
from interlock.sessions.models import SessionListFilter
from interlock.sessions.search import search_sessions
from interlock.sessions.slash_commands import Surface, slash_commands_for
from interlock.sessions.storable_message import require_session

Title = Annotated[str, Field(max_length=200)]
MAX_EARLIER_EVENTS = 400


class SessionListParams(MethodParams):
    group: Literal["chats", "commands", "all"] = "chats"
    archived: bool = False
    limit: Count = 100
    offset: Seq = 0


class SessionCreateParams(MethodParams):
    title: Title = ""
    mode: str | None = None
    agent: str | None = None
    model: str | None = None


class SessionIdParams(MethodParams):
    session_id: Identifier


class SessionSubscribeParams(MethodParams):
    session_id: Identifier
    after_seq: Seq = 0
    last: Annotated[int, Field(ge=0, le=10_000)] | None = None


class SessionEarlierParams(MethodParams):
    session_id: Identifier
    before_seq: Seq
    limit: Annotated[int, Field(ge=1, le=MAX_EARLIER_EVENTS)] = 200


class SessionRenameParams(MethodParams):
    session_id: Identifier
    title: Title


class SessionArchiveParams(MethodParams):
    session_id: Identifier
    archived: bool = True


class SessionSearchParams(MethodParams):
    query: Annotated[str, Field(min_length=1, max_length=200)]
    limit: Annotated[int, Field(ge=1, le=100)] = 20


class SessionSetModeParams(MethodParams):
    session_id: Identifier
    mode: str


class SessionSetModelParams(MethodParams):
    session_id: Identifier
    model: str | None = None


async def list_sessions(call: MethodCall[SessionListParams]) -> Json:
    params = call.params
    found = await call.services.sessions.list_sessions(
        group=SessionListFilter(params.group),
        include_archived=params.archived,
        limit=params.limit,
        offset=params.offset,
    )
    sessions = call.services.sessions
    listed = await call.services.database.read(lambda db: listed_sessions(db, sessions, found))
    return {"sessions": listed}


async def create(call: MethodCall[SessionCreateParams]) -> Json:
    params, services = call.params, call.services
    agent, model = params.agent or None, params.model or None
    if agent is not None:
        await services.threads.start(lambda: services.agents.load(agent))
    if model is not None:
        services.models.listed(model)
    session = await services.sessions.create(
        opened_by=call.who,
        title=params.title,
        mode=mode_of(params.mode) if params.mode else None,
        agent=agent,
        model=model,
    )
    return {"session": session_json(services, session)}


async def get(call: MethodCall[SessionIdParams]) -> Json:
    services, session_id = call.services, call.params.session_id
    shown = await _shown(services, session_id)
    tasks = await services.tasks.list_tasks(session_id=session_id)
    questions = await services.questions.open_questions(session_id)
    return {
        "session": shown,
        "mode": shown["mode"],
        "tasks": [asdict(task) for task in reversed(tasks) if not task.status.is_end],
        "questions": [asdict(question) for question in questions],
    }


async def subscribe(call: MethodCall[SessionSubscribeParams]) -> Json:
    params, hub, caller = call.params, call.services.hub, call.caller
    async with caller.turns.of(params.session_id):
        await hub.leave(params.session_id, caller)
        begin, last = await follow(hub, caller, params.session_id, after=params.after_seq, last=params.last)
    return {"from_seq": begin, "last_seq": last}


async def watch(call: MethodCall[NoParams]) -> Json:
    await call.services.watch.watch(call.caller)
    return {}


async def unsubscribe(call: MethodCall[SessionIdParams]) -> Json:
    session_id, caller = call.params.session_id, call.caller
    async with caller.turns.of(session_id):
        caller.subscriptions.discard(session_id)
        await call.services.hub.leave(session_id, caller)
    return {}


async def earlier(call: MethodCall[SessionEarlierParams]) -> Json:
    frames, begin = await call.services.database.read(lambda db: _read_earlier(db, call.params))
    # The events are encoded already.
    return {"frames": [orjson.Fragment(frame) for frame in frames], "from_seq": begin}


def _read_earlier(connection: DbConnection, params: SessionEarlierParams) -> tuple[list[str], int]:
    """Events before a number, newest first: as many as fit a frame, at least one; and where to continue."""
    require_session(connection, params.session_id)
    through, chars = params.before_seq - 1, 0
    begin = max(0, through - params.limit)
    found: list[list[str]] = []
    while through > begin:
        after = max(begin, through - PAGE)
        told = read_entries(connection, params.session_id, after=after, through=through, limit=PAGE)
        for each in reversed(told):
            frames = [frame.plain for frame in frames_of_entry(each)]
            chars += sum(map(len, frames))
            if found and chars > MAX_PAGE_CHARS:
                return [text for texts in reversed(found) for text in texts], each.seq
            found.append(frames)
        through = after
    return [text for texts in reversed(found) for text in texts], begin


async def rename(call: MethodCall[SessionRenameParams]) -> Json:
    await call.services.sessions.rename(call.params.session_id, call.params.title, who=call.who)
    return {"session": await _shown(call.services, call.params.session_id)}


async def archive(call: MethodCall[SessionArchiveParams]) -> Json:
    params = call.params
    await call.services.sessions.archive(params.session_id, who=call.who, archived=params.archived)
    return {"session": await _shown(call.services, params.session_id)}


async def delete(call: MethodCall[SessionIdParams]) -> Json:
    await call.services.tasks.delete_session(call.params.session_id, who=call.who)
    return {}


async def search(call: MethodCall[SessionSearchParams]) -> Json:
    params = call.params
    found = await call.services.database.read(
        lambda db: search_sessions(db, params.query, limit=params.limit)
    )
    matches = [
        {"session": session_json(call.services, each.session), "seq": each.seq, "snippet": each.snippet}
        for each in found
    ]
    return {"matches": matches}


async def export(call: MethodCall[SessionIdParams]) -> Json:
    session = await call.services.sessions.get(call.params.session_id)
    return {"url": f"/export/session/{quote(session.id)}.jsonl"}


async def set_mode(call: MethodCall[SessionSetModeParams]) -> Json:
    params = call.params
    await call.services.mode_switch.switch(params.session_id, mode_of(params.mode), who=call.who)
    shown = await _shown(call.services, params.session_id)
    return {"session": shown, "mode": shown["mode"]}


async def set_model(call: MethodCall[SessionSetModelParams]) -> Json:
    services, params = call.services, call.params
    model = params.model or None
    if model is not None:
        services.models.listed(model)
    await services.sessions.choose_model(params.session_id, model, who=call.who)
    return {"session": await _shown(services, params.session_id)}


async def compact(call: MethodCall[SessionIdParams]) -> Json:
    await call.services.sessions.request_compaction(call.params.session_id, who=call.who)
    return {}


async def info(call: MethodCall[NoParams]) -> Json:
    about, models = call.services.about, call.services.models
    return {
        "version": about.version,
        "who": call.who,
        "open_modes": [mode.value for mode in ToolMode if mode in about.open_modes],
        "can_switch_modes": len(about.open_modes) > 1,
        "models": list(models.names),
        "usual_model": models.usual,
        "usual_model_name": models.open(models.usual).name,
        "sandbox": dict(about.sandbox),
        "roots": list(about.roots),
        "retention_days": about.retention_days,
        "commands": [
            {"name": command.name, "takes": command.takes}
            for command in slash_commands_for(Surface.page).values()
        ],
    }


def mode_of(name: str) -> ToolMode:
    try:
        return parse_mode(name)
    except ValueError as error:
        raise UserError(f"mode: {error}") from None


async def _shown(services: GatewayServices, session_id: str) -> Json:
    return session_json(services, await services.sessions.get(session_id))


METHODS = (
    Method("server.info", NoParams, info, only_reads=True),
    Method("session.list", SessionListParams, list_sessions, only_reads=True),
    Method("session.create", SessionCreateParams, create),
    Method("session.get", SessionIdParams, get, only_reads=True, is_stored=True),
    Method("session.subscribe", SessionSubscribeParams, subscribe, only_reads=True, is_stored=True),
    Method("session.watch", NoParams, watch, only_reads=True),
    Method("session.unsubscribe", SessionIdParams, unsubscribe, only_reads=True),
    Method(
        "session.earlier", SessionEarlierParams, earlier, only_reads=True, is_stored=True, is_heavy=True
    ),
    Method("session.rename", SessionRenameParams, rename),
    Method("session.archive", SessionArchiveParams, archive),
    Method("session.delete", SessionIdParams, delete),
    Method("session.search", SessionSearchParams, search, only_reads=True, is_stored=True, is_heavy=True),
    Method("session.export", SessionIdParams, export, only_reads=True),
    Method("session.set_mode", SessionSetModeParams, set_mode, needs_modes=True),
    Method("session.set_model", SessionSetModelParams, set_model),
    Method("session.compact", SessionIdParams, compact),
)
