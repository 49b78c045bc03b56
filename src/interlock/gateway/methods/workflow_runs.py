"""Workflows and their runs: listing, starting, pausing, resuming and stopping.

The progress of a run is in the `run.*` and `node.*` events of its session, which clients follow as any
other.
"""

from typing import Annotated

from pydantic import Field

from interlock.core.errors import UserError
from interlock.gateway.methods.base import Count, Identifier, Method, MethodCall, run_to_completion
from interlock.gateway.methods.sessions import mode_of
from interlock.gateway.protocol import MethodParams, NoParams
from interlock.gateway.services import Json
from interlock.workflow.json_views import run_json, run_state_json, workflow_check_json, workflow_json
from interlock.workflow.step_prompt import MAX_INPUT


class WorkflowNameParams(MethodParams):
    name: Identifier


class RunStartParams(MethodParams):
    workflow: Identifier
    input: Annotated[str, Field(max_length=MAX_INPUT)] = ""
    mode: str | None = None
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class RunListParams(MethodParams):
    workflow: Identifier | None = None
    limit: Count = 100


class RunIdParams(MethodParams):
    run_id: Identifier


async def list_workflows(call: MethodCall[NoParams]) -> Json:
    found = await call.services.threads.start(call.services.runs.folder.survey)
    folder = str(call.services.runs.folder.path)
    return {"workflows": [workflow_check_json(each) for each in found], "folder": folder}


async def get_workflow(call: MethodCall[WorkflowNameParams]) -> Json:
    folder, name = call.services.runs.folder, call.params.name
    checked = await call.services.threads.start(lambda: folder.check(name))
    graph = workflow_json(checked.workflow) if checked.workflow else None
    return {**workflow_check_json(checked), "workflow": graph}


async def start(call: MethodCall[RunStartParams]) -> Json:
    """Start a run, in a mode that is open here."""
    return await run_to_completion(_started(call))


async def _started(call: MethodCall[RunStartParams]) -> Json:
    params, runs = call.params, call.services.runs
    model = call.services.models.listed(params.model) if params.model else None
    mode = mode_of(params.mode) if params.mode else None
    session = await runs.create(params.workflow, opened_by=call.who, mode=mode, model=model)
    try:
        run = await runs.start(
            session.id, params.workflow, params.input, who=call.who, credential_id=call.credential_id
        )
    except UserError:
        # A session whose run never started is of no use.
        await call.services.tasks.delete_session(session.id, who=call.who)
        raise
    return {"run": run_json(run)}


async def list_runs(call: MethodCall[RunListParams]) -> Json:
    found = await call.services.runs.book.runs(workflow=call.params.workflow, limit=call.params.limit)
    return {"runs": [run_json(run) for run in found]}


async def get_run(call: MethodCall[RunIdParams]) -> Json:
    shown = await call.services.runs.shown(call.params.run_id)
    question = shown.task.question_id if shown.task is not None and shown.is_waiting else None
    return {**run_state_json(shown.run_state), "is_waiting": shown.is_waiting, "question_id": question}


async def pause(call: MethodCall[RunIdParams]) -> Json:
    return {"run": run_json(await call.services.runs.pause(call.params.run_id, who=call.who))}


async def resume(call: MethodCall[RunIdParams]) -> Json:
    run_id, runs = call.params.run_id, call.services.runs
    return {"run": run_json(await runs.resume(run_id, who=call.who, credential_id=call.credential_id))}


async def retry(call: MethodCall[RunIdParams]) -> Json:
    run_id, runs = call.params.run_id, call.services.runs
    return {"run": run_json(await runs.retry(run_id, who=call.who, credential_id=call.credential_id))}


async def stop(call: MethodCall[RunIdParams]) -> Json:
    return {"run": run_json(await call.services.runs.stop(call.params.run_id, who=call.who))}


METHODS = (
    Method("workflows.list", NoParams, list_workflows, only_reads=True),
    Method("workflows.get", WorkflowNameParams, get_workflow, only_reads=True),
    Method("runs.start", RunStartParams, start),
    Method("runs.list", RunListParams, list_runs, only_reads=True),
    Method("runs.get", RunIdParams, get_run, only_reads=True, is_heavy=True),
    Method("runs.pause", RunIdParams, pause),
    Method("runs.resume", RunIdParams, resume),
    Method("runs.retry", RunIdParams, retry),
    Method("runs.stop", RunIdParams, stop),
)
