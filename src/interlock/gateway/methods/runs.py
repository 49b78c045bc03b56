"""Workflows and their runs: what there is, where each run stands, and what people do with it.

How a run goes on is told by the `run.*` and `node.*` events of its session: follow it like any other.
"""

from typing import Annotated

from pydantic import Field

from interlock.gateway.methods.base import Call, Count, Identity, Method, to_its_end
from interlock.gateway.methods.sessions import mode_of
from interlock.gateway.protocol import NoParams, Params
from interlock.gateway.services import Json
from interlock.infra.errors import PersonError
from interlock.workflow.shown import checked_json, run_json, standing_json, workflow_json
from interlock.workflow.telling import MAX_INPUT


class Named(Params):
    name: Identity


class RunsStart(Params):
    workflow: Identity
    input: Annotated[str, Field(max_length=MAX_INPUT)] = ""
    mode: str | None = None
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class RunsList(Params):
    workflow: Identity | None = None
    limit: Count = 100


class OneRun(Params):
    run_id: Identity


async def list_workflows(call: Call[NoParams]) -> Json:
    found = await call.services.threads.start(call.services.runs.folder.survey)
    folder = str(call.services.runs.folder.path)
    return {"workflows": [checked_json(each) for each in found], "folder": folder}


async def get_workflow(call: Call[Named]) -> Json:
    folder, name = call.services.runs.folder, call.params.name
    checked = await call.services.threads.start(lambda: folder.check(name))
    graph = workflow_json(checked.workflow) if checked.workflow else None
    return {**checked_json(checked), "workflow": graph}


async def start(call: Call[RunsStart]) -> Json:
    """In a mode that is open here, and never more."""
    return await to_its_end(_started(call))


async def _started(call: Call[RunsStart]) -> Json:
    params, runs = call.params, call.services.runs
    model = call.services.models.listed(params.model) if params.model else None
    mode = mode_of(params.mode) if params.mode else None
    session = await runs.create(params.workflow, opened_by=call.who, mode=mode, model=model)
    try:
        run = await runs.start(
            session.id, params.workflow, params.input, who=call.who, credential_id=call.credential_id
        )
    except PersonError:
        # Nobody could do anything with a session whose run was never begun.
        await call.services.tasks.delete_session(session.id, who=call.who)
        raise
    return {"run": run_json(run)}


async def list_runs(call: Call[RunsList]) -> Json:
    found = await call.services.runs.book.runs(workflow=call.params.workflow, limit=call.params.limit)
    return {"runs": [run_json(run) for run in found]}


async def get_run(call: Call[OneRun]) -> Json:
    shown = await call.services.runs.shown(call.params.run_id)
    question = shown.task.question_id if shown.task is not None and shown.is_waiting else None
    return {**standing_json(shown.standing), "is_waiting": shown.is_waiting, "question_id": question}


async def pause(call: Call[OneRun]) -> Json:
    return {"run": run_json(await call.services.runs.pause(call.params.run_id, who=call.who))}


async def resume(call: Call[OneRun]) -> Json:
    run_id, runs = call.params.run_id, call.services.runs
    return {"run": run_json(await runs.resume(run_id, who=call.who, credential_id=call.credential_id))}


async def retry(call: Call[OneRun]) -> Json:
    run_id, runs = call.params.run_id, call.services.runs
    return {"run": run_json(await runs.retry(run_id, who=call.who, credential_id=call.credential_id))}


async def stop(call: Call[OneRun]) -> Json:
    return {"run": run_json(await call.services.runs.stop(call.params.run_id, who=call.who))}


METHODS = (
    Method("workflows.list", NoParams, list_workflows, only_reads=True),
    Method("workflows.get", Named, get_workflow, only_reads=True),
    Method("runs.start", RunsStart, start),
    Method("runs.list", RunsList, list_runs, only_reads=True),
    Method("runs.get", OneRun, get_run, only_reads=True, is_heavy=True),
    Method("runs.pause", OneRun, pause),
    Method("runs.resume", OneRun, resume),
    Method("runs.retry", OneRun, retry),
    Method("runs.stop", OneRun, stop),
)
