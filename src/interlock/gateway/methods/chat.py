"""Chat: a message becomes a task, whose frames carry the request's id."""

from dataclasses import asdict
from typing import Annotated

from pydantic import Field

from interlock.core.errors import UserError, WrongTaskStatus
from interlock.db.driver import DbConnection
from interlock.feed.follow import FeedHub
from interlock.gateway.connection import MAX_SUBSCRIPTIONS
from interlock.gateway.methods.base import (
    MAX_PAGE_CHARS,
    PAGE,
    Count,
    Identifier,
    Method,
    MethodCall,
    MethodCaller,
    Seq,
    session_json,
)
from interlock.gateway.protocol import Frame, MethodParams
from interlock.gateway.services import Json
from interlock.runtime.approved_plans import plan_task_id
from interlock.runtime.task_rows import Task, TaskStatus, new_task_id
from interlock.sessions.manager import new_session_id
from interlock.sessions.models import Message
from interlock.sessions.transcript import read_messages

MAX_CONTENT_CHARS = 200_000


class ChatSendParams(MethodParams):
    session_id: Identifier | None = None
    content: Annotated[str, Field(min_length=1, max_length=MAX_CONTENT_CHARS)]
    task_id: Identifier | None = None
    steer: bool = False


class ChatCancelParams(MethodParams):
    session_id: Identifier
    task_id: Identifier | None = None


class ChatHistoryParams(MethodParams):
    session_id: Identifier
    after_seq: Seq = 0
    limit: Count = 200


class AskUserAnswerParams(MethodParams):
    question_id: Identifier
    answer: dict[str, object]
    start_build: bool = False


class AskUserBuildParams(MethodParams):
    question_id: Identifier


async def send(call: MethodCall[ChatSendParams]) -> Json:
    params, services = call.params, call.services
    task_id = params.task_id or new_task_id()
    call.caller.expect(task_id, call.request_id)
    if params.session_id is None:
        return await _send_to_new_session(call, task_id)
    await subscribe_from_now(call, params.session_id)
    task = await services.tasks.put(
        params.session_id,
        params.content,
        who=call.who,
        credential_id=call.credential_id,
        task_id=task_id,
        steer=params.steer,
    )
    return {"task": asdict(task)}


async def _send_to_new_session(call: MethodCall[ChatSendParams], task_id: str) -> Json:
    """Create the session with its first message, and follow it from its first event."""
    services, wanted = call.services, call.caller.subscriptions
    session_id = new_session_id()
    reserve(call.caller, session_id)
    try:
        task = await services.tasks.put_in_new_session(
            session_id,
            call.params.content,
            who=call.who,
            credential_id=call.credential_id,
            task_id=task_id,
        )
    except BaseException:
        wanted.discard(session_id)
        raise
    if task.session_id != session_id:
        # The message was sent before.
        wanted.discard(session_id)
        await subscribe_from_now(call, task.session_id)
    else:
        await follow(services.hub, call.caller, session_id, after=0)
    session = await services.sessions.get(task.session_id)
    return {"task": asdict(task), "session": session_json(services, session)}


async def cancel(call: MethodCall[ChatCancelParams]) -> Json:
    tasks, params = call.services.tasks, call.params
    if params.task_id is not None:
        task = await tasks.get(params.task_id)
        if task.session_id != params.session_id:
            raise UserError(f"task_id: {params.task_id} is not a task of this session")
    else:
        task = await _task_to_cancel(call)
    return {"task": asdict(await tasks.cancel(task.id, who=call.who))}


async def _task_to_cancel(call: MethodCall[ChatCancelParams]) -> Task:
    """The running or waiting task, else the next one."""
    found = await call.services.tasks.list_tasks(session_id=call.params.session_id)
    unfinished = [task for task in reversed(found) if not task.status.is_end]
    for task in unfinished:
        if task.status in {TaskStatus.running, TaskStatus.waiting}:
            return task
    if not unfinished:
        await call.services.sessions.get(call.params.session_id)
        raise WrongTaskStatus("no task is running or queued in this session")
    return unfinished[0]


async def history(call: MethodCall[ChatHistoryParams]) -> Json:
    said, has_more = await call.services.database.read(lambda db: _read_history(db, call.params))
    return {"messages": [asdict(message) for message in said], "has_more": has_more}


def _read_history(connection: DbConnection, params: ChatHistoryParams) -> tuple[list[Message], bool]:
    """At most `limit` messages, and no more than fit a frame, but at least one if there is any."""
    said: list[Message] = []
    after, chars = params.after_seq, 0
    while page := read_messages(connection, params.session_id, after, PAGE):
        for message in page:
            chars += len(message.content) + (len(str(message.tool_calls)) if message.tool_calls else 0)
            if len(said) == params.limit or (said and chars > MAX_PAGE_CHARS):
                return said, True
            said.append(message)
        after = page[-1].seq
    return said, False


async def answer(call: MethodCall[AskUserAnswerParams]) -> Json:
    questions = call.services.questions
    question = await questions.get(call.params.question_id)
    if question.task is not None:
        call.caller.expect(question.task, call.request_id)
        await subscribe_from_now(call, question.session_id)
    if call.params.start_build:
        call.caller.expect(plan_task_id(question.id), call.request_id)
        built = await call.services.plans.approve(
            question.id, call.params.answer, who=call.who, credential_id=call.credential_id
        )
        return {"question": asdict(built.question), "can_build": False, "task": asdict(built.task)}
    answered = await questions.answer(question.id, call.params.answer, who=call.who)
    return {"question": asdict(answered), "can_build": call.services.plans.can_build(answered)}


async def build(call: MethodCall[AskUserBuildParams]) -> Json:
    question = await call.services.questions.get(call.params.question_id)
    call.caller.expect(plan_task_id(question.id), call.request_id)
    await subscribe_from_now(call, question.session_id)
    built = await call.services.plans.build(question.id, who=call.who, credential_id=call.credential_id)
    return {"task": asdict(built.task)}


async def subscribe_from_now(
    call: "MethodCall[ChatSendParams] | MethodCall[AskUserAnswerParams] | MethodCall[AskUserBuildParams]"
    " | MethodCall[TaskRetryParams]",
    session_id: str,
) -> None:
    """Subscribe the client that starts a task to its session."""
    # If a subscription from some number is under way, do not start another at the end.
    async with call.caller.turns.of(session_id):
        if not call.services.hub.follows(session_id, call.caller):
            await follow(call.services.hub, call.caller, session_id, after=None)


async def follow(
    hub: FeedHub[Frame],
    caller: MethodCaller,
    session_id: str,
    *,
    after: int | None,
    last: int | None = None,
) -> tuple[int, int]:
    reserve(caller, session_id)
    try:
        return await hub.follow(session_id, caller, after=after, last=last)
    finally:
        if hub.follows(session_id, caller):
            caller.subscriptions.add(session_id)
        else:
            caller.subscriptions.discard(session_id)


def reserve(caller: MethodCaller, session_id: str) -> None:
    """Count a subscription before it starts, so that concurrent requests count too."""
    wanted = caller.subscriptions
    if session_id not in wanted and len(wanted) >= MAX_SUBSCRIPTIONS:
        raise UserError(
            f"one socket can follow at most {MAX_SUBSCRIPTIONS} sessions; unsubscribe from some"
        )
    wanted.add(session_id)


class TaskRetryParams(MethodParams):
    task_id: Identifier


async def retry(call: MethodCall[TaskRetryParams]) -> Json:
    tasks, as_task = call.services.tasks, new_task_id()
    before = await tasks.get(call.params.task_id)
    call.caller.expect(as_task, call.request_id)
    await subscribe_from_now(call, before.session_id)
    again = await tasks.retry(before.id, who=call.who, credential_id=call.credential_id, as_task=as_task)
    return {"task": asdict(again)}


METHODS = (
    Method("chat.send", ChatSendParams, send),
    Method("chat.cancel", ChatCancelParams, cancel),
    Method("chat.history", ChatHistoryParams, history, only_reads=True, is_stored=True, is_heavy=True),
    Method("ask_user.answer", AskUserAnswerParams, answer),
    Method("ask_user.build", AskUserBuildParams, build, needs_modes=True),
    Method("tasks.retry", TaskRetryParams, retry),
)
