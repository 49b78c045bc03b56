"""Where a run goes: along edges, in no other way, and never back on what was completed (S4-EP3)."""

from hypothesis import given
from hypothesis import strategies as st

from interlock.workflow.conditions import parse_condition
from interlock.workflow.graph import NodeKind, StepBrief, Workflow, WorkflowEdge, WorkflowNode
from interlock.workflow.graph_checks import graph_problems
from interlock.workflow.state_machine import (
    AbandonRun,
    CompleteNode,
    EnterNode,
    FinishRun,
    MarkNodeFailed,
    NodeInFrame,
    PastVisit,
    RunStateMachine,
    VisitStatus,
    WorkflowSet,
    WorkOnStep,
)
from tests.unit.workflow.graphs import REVIEWED, read


class Run:
    """Keeps what a store would keep, move by move."""

    def __init__(self, *workflows: Workflow) -> None:
        self.book = WorkflowSet(workflows[0].name, {each.name: each for each in workflows})
        self.seen: list[PastVisit] = []
        self.artifacts: dict[str, str] = {}
        self.at: NodeInFrame | None = None
        self.end: object = None
        self.take(self.walk().begin())

    def walk(self) -> RunStateMachine:
        return RunStateMachine(self.book, tuple(self.seen), self.artifacts)

    def come_to(self, outcome: str = "") -> "Run":
        self.take(self.walk().advance(self.at, outcome))
        return self

    def take(self, moves) -> None:
        self.moves = moves
        self.at = None
        for move in moves:
            match move:
                case EnterNode(place, _):
                    self.seen.append(PastVisit(place, VisitStatus.active))
                case CompleteNode(place, outcome, _):
                    self.close(place, VisitStatus.completed, outcome)
                case MarkNodeFailed(place, _):
                    self.close(place, VisitStatus.failed, "")
                    self.end = move
                case WorkOnStep(place):
                    self.at = place
                case FinishRun() | AbandonRun():
                    self.end = move

    def close(self, place: NodeInFrame, status: VisitStatus, outcome: str) -> None:
        at = max(n for n, seen in enumerate(self.seen) if seen.place == place)
        assert self.seen[at].status is VisitStatus.active
        self.seen[at] = PastVisit(place, status, outcome)

    @property
    def completed(self) -> list[tuple[NodeInFrame, str]]:
        return [(seen.place, seen.outcome) for seen in self.seen if seen.status is VisitStatus.completed]


def reviewed() -> Workflow:
    workflow, faults = read(REVIEWED)
    assert faults == []
    return workflow


def test_a_review_sends_the_work_back_until_it_approves():
    run = Run(reviewed())
    assert run.at == ("", "plan")
    run.come_to().come_to().come_to("needs_work")
    assert run.at == ("", "build")
    run.come_to().come_to("approve")
    assert run.end == FinishRun("done")
    names = [place.node for place, _ in run.completed]
    assert [outcome for place, outcome in run.completed if place.node == "verdict"] == ["build", "done"]
    assert names == ["plan", "build", "review", "verdict", "build", "review", "verdict", "done"]


def test_a_circle_ends_at_the_number_of_visits_that_the_file_allows():
    run = Run(reviewed()).come_to()
    for _ in range(3):
        run.come_to().come_to("needs_work")
    assert run.end == AbandonRun("build was visited 3 times, the maximum")


def test_only_outcomes_that_lead_on_are_taken_and_the_others_are_named():
    run = Run(reviewed()).come_to().come_to()
    walk = run.walk()
    assert walk.allowed(run.at) == ("approve", "needs_work")
    assert walk.refusal(run.at, "approve") == ""
    assert walk.refusal(run.at, "fine") == "'fine' is not an outcome of review"
    assert walk.refusal(run.at, "") == "it must name its outcome"
    plan = Run(reviewed())
    assert plan.walk().refusal(plan.at, "done") == ""
    assert plan.walk().refusal(plan.at, "approve") != ""


def test_a_step_that_lists_its_outcomes_must_say_one():
    run = Run(reviewed()).come_to().come_to().come_to("")
    assert run.end == MarkNodeFailed(
        NodeInFrame("", "review"), "review did not name its outcome (one of: approve, needs_work)"
    )


def small(*edges: WorkflowEdge, more: dict[str, WorkflowNode] | None = None) -> Workflow:
    nodes = {
        "a": WorkflowNode(name="a", kind=NodeKind.step, brief=StepBrief("do")),
        "b": WorkflowNode(name="b", kind=NodeKind.end, outcome="b"),
        "c": WorkflowNode(name="c", kind=NodeKind.end, outcome="c"),
    } | (more or {})
    return Workflow("small", "small", "a", nodes, edges)


def edge(
    source: str, target: str, label: str = "", condition: str = "", default: bool = False
) -> WorkflowEdge:
    parsed = parse_condition(condition) if condition else None
    return WorkflowEdge(source=source, target=target, label=label, condition=parsed, is_default=default)


def test_labels_are_chosen_by_the_step_and_a_default_by_nobody():
    workflow = small(edge("a", "b", "yes"), edge("a", "c", "no"))
    assert Run(workflow).come_to("yes").end == FinishRun("b")
    assert Run(workflow).come_to("no").end == FinishRun("c")
    unsaid = Run(workflow).come_to("")
    assert unsaid.end == MarkNodeFailed(NodeInFrame("", "a"), "a did not choose an edge (valid: yes, no)")
    with_default = small(edge("a", "b", "yes"), edge("a", "c", "no", default=True))
    assert Run(with_default).come_to("").end == FinishRun("c")


def test_a_label_with_a_condition_is_open_only_while_it_holds():
    workflow = small(edge("a", "b", "yes", "artifacts.tests == 'green'"), edge("a", "c", "no"))
    run = Run(workflow)
    assert run.walk().allowed(run.at) == ("no",)
    assert "matches the outcome" in run.walk().refusal(run.at, "yes")
    run.artifacts["tests"] = "green"
    assert run.walk().allowed(run.at) == ("yes", "no")


def test_two_conditions_that_hold_are_a_clear_fault():
    workflow = small(edge("a", "b", condition="true"), edge("a", "c", condition="true"))
    assert Run(workflow).come_to("").end == MarkNodeFailed(
        NodeInFrame("", "a"), "more than one condition holds at a (to b and c); only one may hold"
    )


def test_a_subworkflow_runs_in_a_frame_of_its_own_and_its_end_is_its_outcome():
    inner = small(edge("a", "b", "yes"), edge("a", "c", "no"))
    sub = WorkflowNode(name="sub", kind=NodeKind.subworkflow, workflow="small")
    again = edge("sub", "sub", "c")
    outer = Workflow(
        "outer",
        "outer",
        "a",
        {**small().nodes, "sub": sub},
        (edge("a", "sub"), edge("sub", "b", "b"), again),
    )
    run = Run(outer, inner).come_to()
    assert run.at == ("sub#1/", "a")
    run.come_to("no")
    assert run.at == ("sub#2/", "a")
    assert run.come_to("yes").end == FinishRun("b")
    assert (NodeInFrame("", "sub"), "c") in run.completed
    assert (NodeInFrame("", "sub"), "b") in run.completed


# -- any graph -----------------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d", "e", "f")
CONDITIONS = ('a.outcome == "yes"', "b.visits > 1", "run.steps < 3", "artifacts.x == '1'", "false", "true")


@st.composite
def workflows(draw) -> Workflow:
    kinds = st.sampled_from([NodeKind.step, NodeKind.step, NodeKind.decision, NodeKind.merge, NodeKind.end])
    nodes = {
        name: WorkflowNode(
            name=name,
            kind=draw(kinds),
            outcome=name,
            brief=StepBrief("do", outcomes=draw(st.sampled_from([(), ("yes", "no")]))),
            max_visits=draw(st.integers(1, 4)),
        )
        for name in NAMES[: draw(st.integers(1, len(NAMES)))]
    }
    edges = draw(
        st.lists(
            st.builds(
                edge,
                st.sampled_from(sorted(nodes)),
                st.sampled_from(sorted(nodes)),
                st.sampled_from(["", "", "yes", "no"]),
                st.sampled_from(["", "", *CONDITIONS]),
                st.booleans(),
            ),
            max_size=12,
        )
    )
    return Workflow("any", "any", "a", nodes, tuple(edges), max_steps=draw(st.integers(1, 12)))


@given(workflows(), st.lists(st.sampled_from(["", "yes", "no", "done"]), max_size=20))
def test_any_run_moves_along_edges_ends_and_keeps_what_it_completed(workflow, outcomes):
    """Also where the checks would have refused the graph: the machine itself is what holds."""
    run = Run(workflow)
    before: list[tuple[NodeInFrame, str]] = []
    for outcome in [*outcomes, *[""] * 40]:
        came_from: list[WorkflowEdge] = []
        for move in run.moves:
            if isinstance(move, CompleteNode) and move.edge is not None:
                assert move.edge in workflow.edges_from(move.place.node)
                came_from.append(move.edge)
            if isinstance(move, EnterNode) and came_from:
                assert move.place.node == came_from[-1].target
        assert run.completed[: len(before)] == before
        assert len([s for s in run.seen if s.status is VisitStatus.active]) <= 1
        before = run.completed
        if run.at is None:
            break
        run.come_to(outcome)
    assert isinstance(run.end, FinishRun | AbandonRun | MarkNodeFailed)
    steps = [place for place, _ in run.completed if workflow.nodes[place.node].kind is NodeKind.step]
    assert len(steps) <= workflow.max_steps
    for name, node in workflow.nodes.items():
        assert sum(seen.place.node == name for seen in run.seen) <= node.max_visits


@given(workflows(), st.lists(st.sampled_from(["", "yes", "no"]), max_size=12))
def test_a_graph_without_problems_never_leaves_a_run_without_a_way_where_the_outcome_is_allowed(
    workflow, outcomes
):
    if list(graph_problems(workflow)):
        return
    run = Run(workflow)
    for outcome in outcomes:
        if run.at is None or run.walk().refusal(run.at, outcome):
            break
        place = run.at
        run.come_to(outcome)
        if isinstance(run.end, MarkNodeFailed):
            # Then it was a decision behind it that two conditions held at.
            assert run.end.place != place
            assert "more than one condition" in run.end.reason


OUTSPOKEN = """\
description = "Deploy what is approved"
start = "review"
[nodes.review]
kind = "step"
[nodes.deploy]
kind = "step"
[nodes.fix]
kind = "step"
[nodes.done]
kind = "end"
[[edges]]
from = "review"
to = "deploy"
condition = 'review.outcome == "approve"'
[[edges]]
from = "review"
to = "fix"
default = true
[[edges]]
from = "deploy"
to = "review"
label = "again"
[[edges]]
from = "deploy"
to = "done"
label = "stop"
[[edges]]
from = "fix"
to = "review"
"""
OUTSPOKEN_FILES = {
    "review.md": "---\noutcomes: approve, needs_work\n---\nLook.\n",
    "deploy.md": "Deploy.\n",
    "fix.md": "Mend.\n",
}


def test_a_visit_that_says_nothing_has_not_said_what_the_one_before_it_said():
    run = Run(read(OUTSPOKEN, OUTSPOKEN_FILES)[0]).come_to("approve")
    assert run.at.node == "deploy"
    assert run.come_to("again").at.node == "review"
    assert run.come_to("").at.node == "fix"


def test_a_silent_visit_pauses_where_there_is_no_default_whatever_was_said_before():
    graph = OUTSPOKEN.replace("default = true", "condition = 'review.outcome == \"needs_work\"'")
    run = Run(read(graph, OUTSPOKEN_FILES)[0]).come_to("approve").come_to("again").come_to("")
    assert isinstance(run.end, MarkNodeFailed)
    assert "did not name its outcome" in run.end.reason
    listed = OUTSPOKEN_FILES | {"review.md": "Look.\n"}
    silent = Run(read(graph.replace('"approve"', '"done"'), listed)[0]).come_to("done").come_to("again")
    assert isinstance(silent.come_to("").end, MarkNodeFailed)
