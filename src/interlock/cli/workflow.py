"""`interlock workflow`: the workflows of the workspace, and their runs."""

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from interlock.cli.command_line_session import RootOptions
from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import (
    AsJson,
    AsJsonLines,
    Count,
    local_time,
    note,
    print_json,
    print_line,
    print_table,
)
from interlock.cli.runtime import open_cli_agent_runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interlock.wiring.agents import AgentRuntime
    from interlock.workflow.directory import WorkflowCheck, WorkflowDirectory
    from interlock.workflow.graph import Workflow, WorkflowEdge
    from interlock.workflow.run_rows import RunState, WorkflowRun

app = App(
    name="workflow",
    help="List, check and run workflows; show, pause, resume, retry and stop runs.",
    help_format="plaintext",
)

Here = Annotated[bool, Parameter(negative=())]


@app.command(name="list")
async def list_workflows(*, json: AsJson = False) -> int:
    """List the workflows of the workspace. Workflows with problems are named on stderr."""
    from interlock.workflow.json_views import workflow_check_json

    async with _folder() as folder:
        found = folder.survey()
    if json:
        print_json([workflow_check_json(each) for each in found])
        return ExitCode.ok
    usable = [each for each in found if not each.problems and each.workflow]
    if usable:
        print_table(["workflow", "description"], [[e.name, _description(e)] for e in usable])
    else:
        note(f"no workflows in {folder.path}")
    if broken := [each.name for each in found if each.problems]:
        note(f"not usable: {', '.join(broken)}; for the reasons, run: interlock workflow check")
    return ExitCode.ok


@app.command
async def check(name: str | None = None, *, json: AsJson = False) -> int:
    """Check one workflow, or all of them, and print each problem with its file and key.

    Parameters
    ----------
    name
        The workflow's name.
    """
    from interlock.workflow.json_views import workflow_check_json

    async with _folder() as folder:
        found = folder.survey() if name is None else [folder.check(name)]
    if json:
        print_json([workflow_check_json(each) for each in found])
    else:
        for each in found:
            for problem in each.problems:
                print_line(f"{folder.path / each.name}/{problem}")
        bad = sum(bool(each.problems) for each in found)
        note(f"usable workflows: {len(found) - bad}; with problems: {bad}")
    return ExitCode.failed if any(each.problems for each in found) else ExitCode.ok


@app.command
async def run(
    name: str,
    text: str = "",
    *,
    mode: str | None = None,
    root: RootOptions = (),
    model: str | None = None,
    json: AsJsonLines = False,
) -> int:
    """Run a workflow in this process until it is done, stuck, or waits for an answer.

    Parameters
    ----------
    name
        The workflow's name.
    text
        The purpose of the run; every step receives it.
    mode
        The mode of the run and the ceiling of every step; it is opened for this process only.
    root
        A directory to work in, instead of the configured ones.
    model
        One of the configured models.
    json
        Print progress as JSON lines.
    """
    from interlock.cli.workflow_run_here import start_run_here

    return await start_run_here(name, text, mode, root, model, as_json=json)


@app.command
async def show(name: str, *, json: AsJson = False) -> int:
    """Show a run by its id: its state and every visited node. Or a workflow by its name: its graph.

    Parameters
    ----------
    name
        The id of a run, or the name of a workflow.
    """
    from interlock.workflow.json_views import run_state_json, workflow_json
    from interlock.workflow.run_rows import RunNotFound

    async with open_cli_agent_runtime() as agent_runtime:
        try:
            shown = await agent_runtime.runs.shown(name)
        except RunNotFound:
            if name.startswith("s_"):
                raise
            workflow = agent_runtime.runs.folder.load(name)
            if json:
                print_json(workflow_json(workflow))
            else:
                _print_workflow(workflow)
            return ExitCode.ok
    if json:
        print_json({**run_state_json(shown.run_state), "is_waiting": shown.is_waiting})
    else:
        _print_run(shown.run_state, is_waiting=shown.is_waiting)
        if shown.is_waiting and shown.task is not None:
            note(f"waiting for an answer: interlock questions show {shown.task.question_id}")
    return ExitCode.ok


@app.command
async def runs(*, workflow: str | None = None, limit: Count = 50, json: AsJson = False) -> int:
    """List runs, the newest first.

    Parameters
    ----------
    workflow
        Only runs of this workflow.
    limit
        Maximum number of runs.
    """
    from interlock.workflow.json_views import run_json

    async with open_cli_agent_runtime() as agent_runtime:
        found = await agent_runtime.runs.book.runs(workflow=workflow, limit=limit)
    if json:
        print_json([run_json(each) for each in found])
    elif not found:
        note("no runs")
    else:
        rows = [
            [
                each.session_id,
                each.workflow,
                each.status.value,
                local_time(each.created_us),
                each.reason or "",
            ]
            for each in found
        ]
        print_table(["run", "workflow", "status", "started", "reason"], rows)
    return ExitCode.ok


@app.command
async def pause(run: str, *, json: AsJson = False) -> int:
    """Pause a run: the running step finishes, and no further step starts.

    Parameters
    ----------
    run
        The run's id, as `interlock workflow runs` shows it.
    """
    return await _changed("pause", run, as_json=json)


@app.command
async def stop(run: str, *, json: AsJson = False) -> int:
    """Stop a run permanently and cancel its running step.

    Parameters
    ----------
    run
        The run's id, as `interlock workflow runs` shows it.
    """
    return await _changed("stop", run, as_json=json)


@app.command
async def resume(
    run: str, *, here: Here = False, mode: str | None = None, root: RootOptions = (), json: AsJson = False
) -> int:
    """Resume a paused run. Workers continue it, or this process with --here.

    Parameters
    ----------
    run
        The run's id.
    here
        Run it in this process, even if it is not paused, unless another process runs it.
    mode
        With --here: the mode to open for this process; it must be the run's own.
    root
        With --here: a directory to work in, instead of the configured ones.
    """
    from interlock.cli.workflow_run_here import continue_run_here

    if here:
        return await continue_run_here(run, "resume", mode, root, as_json=json)
    return await _changed("resume", run, as_json=json)


@app.command
async def retry(
    run: str, *, here: Here = False, mode: str | None = None, root: RootOptions = (), json: AsJson = False
) -> int:
    """Retry the step that did not finish, with the current files of the agents.

    Parameters
    ----------
    run
        The run's id.
    here
        Run it in this process.
    mode
        With --here: the mode to open for this process; it must be the run's own.
    root
        With --here: a directory to work in, instead of the configured ones.
    """
    from interlock.cli.workflow_run_here import continue_run_here

    if here:
        return await continue_run_here(run, "retry", mode, root, as_json=json)
    return await _changed("retry", run, as_json=json)


async def _changed(what: str, run_id: str, *, as_json: bool) -> int:
    from interlock.workflow.json_views import run_json

    async with open_cli_agent_runtime() as agent_runtime:
        changed = await change(agent_runtime, what, run_id)
    if as_json:
        print_json(run_json(changed))
    else:
        print_line(f"run       {changed.session_id}  {changed.status}")
    if what in {"resume", "retry"}:
        note(f"a worker continues it: interlock worker, serve, or workflow {what} {run_id} --here")
    return ExitCode.ok


async def change(agent_runtime: "AgentRuntime", what: str, run_id: str) -> "WorkflowRun":
    from interlock.wiring import local_actor

    command_line_session = agent_runtime.runs
    changes = {
        "pause": command_line_session.pause,
        "stop": command_line_session.stop,
        "resume": command_line_session.resume,
        "retry": command_line_session.retry,
    }
    return await changes[what](run_id, who=local_actor())


@asynccontextmanager
async def _folder() -> "AsyncIterator[WorkflowDirectory]":
    """Open only the workflow directory: reading files needs no database."""
    from interlock.agent.definitions import AgentDirectory
    from interlock.config.settings import load_settings
    from interlock.wiring import build_registry, tool_names
    from interlock.wiring.agents import open_workflow_directory

    workspace, tools = load_settings().workspace_dir, tool_names(build_registry())
    yield open_workflow_directory(workspace, tools, AgentDirectory(workspace / "agents", tools))


# -- output --------------------------------------------------------------------------------------------


def _description(checked: "WorkflowCheck") -> str:
    return checked.workflow.description if checked.workflow else ""


def _print_workflow(workflow: "Workflow") -> None:
    print_line(f"workflow  {workflow.name}")
    print_line(f"for       {workflow.description}")
    print_line(f"start     {workflow.start}")
    print_line()
    for node in workflow.nodes.values():
        agent = workflow.agent_of(node.name) if node.brief else None
        who = f" by {agent}" if agent else ""
        print_line(f"{node.kind:<11} {node.name}{who}{f': {node.title}' if node.title else ''}")
        for edge in workflow.edges_from(node.name):
            print_line(f"            > {edge.target}{_how(edge)}")


def _how(edge: "WorkflowEdge") -> str:
    said = [f'"{edge.label}"'] if edge.label else []
    said += [f"if {edge.condition.text}"] if edge.condition else []
    said += ["otherwise"] if edge.is_default else []
    return f"  ({', '.join(said)})" if said else ""


def _print_run(run_state: "RunState", *, is_waiting: bool) -> None:
    run = run_state.run
    status = f"{run.status}, waiting for an answer" if is_waiting else run.status.value
    print_line(f"run       {run.session_id}")
    print_line(f"workflow  {run.workflow}  {run.digest[:16]}")
    print_line(f"status    {status}{f': {run.reason}' if run.reason else ''}")
    if run.outcome:
        print_line(f"outcome   {run.outcome}")
    print_line(f"mode      {run.mode}, started by {run.started_by} at {local_time(run.created_us)}")
    if run_state.visits:
        rows = [
            [v.number, f"{v.frame}{v.node}", v.status.value, v.outcome or "", v.summary or v.reason or ""]
            for v in run_state.visits
        ]
        print_line()
        print_table(["", "node", "status", "outcome", "what"], rows)
    if run_state.artifacts:
        note(f"artifacts: {', '.join(run_state.artifacts)} (--json shows them)")
