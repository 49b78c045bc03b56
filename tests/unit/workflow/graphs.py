"""Workflows for tests, written as people write them."""

from pathlib import Path

from interlock.workflow.directory import WorkflowDirectory
from interlock.workflow.graph import Workflow
from interlock.workflow.parser import parse_workflow

TOOLS = frozenset({"read_file", "write_file", "bash", "ask_user"})
AGENTS = {"coder": "c" * 64, "critic": "d" * 64}

REVIEWED = """\
description = "Plan, build, review"
start = "plan"

[nodes.plan]
kind = "step"

[nodes.build]
kind = "step"
max_visits = 3

[nodes.review]
kind = "step"

[nodes.verdict]
kind = "decision"

[nodes.done]
kind = "end"

[[edges]]
from = "plan"
to = "build"

[[edges]]
from = "build"
to = "review"

[[edges]]
from = "review"
to = "verdict"

[[edges]]
from = "verdict"
to = "done"
condition = 'review.outcome == "approve"'

[[edges]]
from = "verdict"
to = "build"
default = true
"""
REVIEWED_FILES = {
    "plan.md": "---\nagent: coder\nmode: plan\n---\nWrite a plan.\n",
    "build.md": "---\nagent: coder\n---\nBuild it.\n",
    "review.md": "---\nagent: critic\noutcomes: approve, needs_work\ntools.denied_tools: bash\n---\nLook\n",
}


def read(graph: str, files: dict[str, str] | None = None) -> tuple[Workflow | None, list[str]]:
    """The workflow, and the problems of its files alone."""
    workflow, found = parse_workflow("test", graph, REVIEWED_FILES if files is None else files, TOOLS)
    return workflow, [str(problem) for problem in found]


def put(folder: Path, name: str, graph: str = REVIEWED, files: dict[str, str] | None = None) -> None:
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "workflow.toml").write_text(graph)
    for file, text in (REVIEWED_FILES if files is None else files).items():
        (place / file).write_text(text)


def opened(folder: Path) -> WorkflowDirectory:
    return WorkflowDirectory(folder, TOOLS, lambda: AGENTS)


def problems(folder: Path, name: str) -> list[str]:
    return [str(problem) for problem in opened(folder).check(name).problems]
