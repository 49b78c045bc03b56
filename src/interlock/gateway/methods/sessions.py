"""Sessions: make them, follow them, find them again."""

from dataclasses import asdict
from typing import Annotated, Literal
from urllib.parse import quote

import orjson
from pydantic import Field

from interlock.config.modes import ToolMode, parse_mode
from interlock.following.told import read_told
from interlock.gateway.frames import frames_of
from interlock.gateway.methods.base import (
    MAX_PAGE_CHARS,
    PAGE,
    Call,
    Count,
    Identity,
    Method,
    Seq,
    session_json,
)
from interlock.gateway.methods.chat import follow
from interlock.gateway.protocol import NoParams, Params
from interlock.gateway.services import Json, Services
from interlock.infra.errors import PersonError
from interlock.session.messages import must_be_there
from interlock.session.models import SessionGroup
from interlock.session.search import search_sessions
from interlock.session.slash import Place, known_in
from interlock.store.driver import Connection
from interlock.worker.rows import under_way

Title = Annotated[str, Field(max_length=200)]
MAX_EARLIER = 400


class SessionList(Params):
    group: Literal["chats", "commands", "all"] = "chats"
    archived: bool = False
    limit: Count = 100
    offset: Seq = 0


class SessionCreate(Params):
    title: Title = ""
    mode: str | None = None
    agent: str | None = None
    model: str | None = None


class SessionGet(Params):
    session_id: Identity


class SessionSubscribe(Params):
    session_id: Identity
    after_seq: Seq = 0
    last: Annotated[int, Field(ge=0, le=10_000)] | None = None


class SessionEarlier(Params):
    session_id: Identity
    before_seq: Seq
    limit: Annotated[int, Field(ge=1, le=MAX_EARLIER)] = 200


class SessionRename(Params):
    session_id: Identity
    title: Title


class SessionArchive(Params):
    session_id: Identity
    archived: bool = True


class SessionSearch(Params):
    query: Annotated[str, Field(min_length=1, max_length=200)]
    limit: Annotated[int, Field(ge=1, le=100)] = 20


class SessionSetMode(Params):
    session_id: Identity
    mode: str


class SessionSetModel(Params):
    session_id: Identity
    model: str | None = None


async def list_sessions(call: Call[SessionList]) -> Json:
    params = call.params
    found = await call.services.sessions.list_sessions(
        group=SessionGroup(params.group),
        include_archived=params.archived,
        limit=params.limit,
        offset=params.offset,
    )
    names = [session.id for session in found]
    work = await call.services.database.read(lambda connection: under_way(connection, names))
    return {
        "sessions": [
            session_json(call.services, session) | {"work": work.get(session.id)} for session in found
        ]
    }


async def create(call: Call[SessionCreate]) -> Json:
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


async def get(call: Call[SessionGet]) -> Json:
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


async def subscribe(call: Call[SessionSubscribe]) -> Json:
    params, hub, caller = call.params, call.services.hub, call.caller
    async with caller.turns.of(params.session_id):
        await hub.leave(params.session_id, caller)
        begin, last = await follow(hub, caller, params.session_id, after=params.after_seq, last=params.last)
    return {"from_seq": begin, "last_seq": last}


async def unsubscribe(call: Call[SessionGet]) -> Json:
    session_id, caller = call.params.session_id, call.caller
    async with caller.turns.of(session_id):
        caller.subscriptions.discard(session_id)
        await call.services.hub.leave(session_id, caller)
    return {}


async def earlier(call: Call[SessionEarlier]) -> Json:
    frames, begin = await call.services.database.read(lambda db: _read_earlier(db, call.params))
    # They are encoded already.
    return {"frames": [orjson.Fragment(frame) for frame in frames], "from_seq": begin}


def _read_earlier(connection: Connection, params: SessionEarlier) -> tuple[list[str], int]:
    """The newest first, as many as fit a frame, but always one; and the number that they begin after."""
    must_be_there(connection, params.session_id)
    through, chars = params.before_seq - 1, 0
    begin = max(0, through - params.limit)
    found: list[list[str]] = []
    while through > begin:
        after = max(begin, through - PAGE)
        told = read_told(connection, params.session_id, after=after, through=through, limit=PAGE)
        for each in reversed(told):
            frames = [frame.plain for frame in frames_of(each)]
            chars += sum(map(len, frames))
            if found and chars > MAX_PAGE_CHARS:
                return [text for texts in reversed(found) for text in texts], each.seq
            found.append(frames)
        through = after
    return [text for texts in reversed(found) for text in texts], begin


async def rename(call: Call[SessionRename]) -> Json:
    await call.services.sessions.rename(call.params.session_id, call.params.title, who=call.who)
    return {"session": await _shown(call.services, call.params.session_id)}


async def archive(call: Call[SessionArchive]) -> Json:
    params = call.params
    await call.services.sessions.archive(params.session_id, who=call.who, archived=params.archived)
    return {"session": await _shown(call.services, params.session_id)}


async def delete(call: Call[SessionGet]) -> Json:
    await call.services.tasks.delete_session(call.params.session_id, who=call.who)
    return {}


async def search(call: Call[SessionSearch]) -> Json:
    params = call.params
    found = await call.services.database.read(
        lambda db: search_sessions(db, params.query, limit=params.limit)
    )
    matches = [
        {"session": session_json(call.services, each.session), "seq": each.seq, "snippet": each.snippet}
        for each in found
    ]
    return {"matches": matches}


async def export(call: Call[SessionGet]) -> Json:
    session = await call.services.sessions.get(call.params.session_id)
    return {"url": f"/export/session/{quote(session.id)}.jsonl"}


async def set_mode(call: Call[SessionSetMode]) -> Json:
    params = call.params
    await call.services.mode_switch.switch(params.session_id, mode_of(params.mode), who=call.who)
    shown = await _shown(call.services, params.session_id)
    return {"session": shown, "mode": shown["mode"]}


async def set_model(call: Call[SessionSetModel]) -> Json:
    services, params = call.services, call.params
    model = params.model or None
    if model is not None:
        services.models.listed(model)
    await services.sessions.choose_model(params.session_id, model, who=call.who)
    return {"session": await _shown(services, params.session_id)}


async def info(call: Call[NoParams]) -> Json:
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
            {"name": command.name, "takes": command.takes} for command in known_in(Place.page).values()
        ],
    }


def mode_of(name: str) -> ToolMode:
    try:
        return parse_mode(name)
    except ValueError as error:
        raise PersonError(f"mode: {error}") from None


async def _shown(services: Services, session_id: str) -> Json:
    return session_json(services, await services.sessions.get(session_id))


METHODS = (
    Method("server.info", NoParams, info, only_reads=True),
    Method("session.list", SessionList, list_sessions, only_reads=True),
    Method("session.create", SessionCreate, create),
    Method("session.get", SessionGet, get, only_reads=True, is_stored=True),
    Method("session.subscribe", SessionSubscribe, subscribe, only_reads=True, is_stored=True),
    Method("session.unsubscribe", SessionGet, unsubscribe, only_reads=True),
    Method("session.earlier", SessionEarlier, earlier, only_reads=True, is_stored=True, is_heavy=True),
    Method("session.rename", SessionRename, rename),
    Method("session.archive", SessionArchive, archive),
    Method("session.delete", SessionGet, delete),
    Method("session.search", SessionSearch, search, only_reads=True, is_stored=True, is_heavy=True),
    Method("session.export", SessionGet, export, only_reads=True),
    Method("session.set_mode", SessionSetMode, set_mode, needs_modes=True),
    Method("session.set_model", SessionSetModel, set_model),
)
