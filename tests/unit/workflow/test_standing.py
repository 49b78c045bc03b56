"""Where a run is, from its rows: by their order, and by no clock."""

from dataclasses import replace

from interlock.config.modes import ToolMode
from interlock.workflow.graph import NodeKind
from interlock.workflow.run_rows import NodeVisit, RunState, RunStatus, WorkflowRun
from interlock.workflow.state_machine import VisitStatus

RUN = WorkflowRun(
    session_id="s",
    workflow="w",
    digest="",
    mode=ToolMode.plan,
    status=RunStatus.paused,
    agents={},
    definition=None,
    input=None,
    started_by="ada",
    started_event="e",
    created_us=0,
)


def visit(number: int, node: str, status: VisitStatus, ended: int, **more: object) -> NodeVisit:
    made = NodeVisit(
        session_id="s",
        number=number,
        frame="",
        node=node,
        kind=NodeKind.step,
        status=status,
        entered_event="e",
        visit=1,
        entered_us=0,
        ended_us=ended,
    )
    return replace(made, **more)


def test_what_failed_last_is_where_it_is_though_the_clock_was_set_back():
    visits = (
        visit(1, "build", VisitStatus.failed, 2000),
        visit(2, "build", VisitStatus.completed, 1000, retry_of=1),
        visit(3, "deploy", VisitStatus.failed, 1500),
    )
    assert RunState(RUN, visits).at.node == "deploy"


def test_a_subworkflow_that_failed_after_its_step_was_retried_is_where_it_is():
    """It was come to before its step, so that its number is the smaller one."""
    around = visit(1, "polish", VisitStatus.failed, 1000, kind=NodeKind.subworkflow)
    inside = [
        visit(2, "write", VisitStatus.failed, 2000, frame="polish#1/"),
        visit(3, "write", VisitStatus.completed, 1500, frame="polish#1/", retry_of=2),
    ]
    assert RunState(RUN, (around, *inside)).at == around
