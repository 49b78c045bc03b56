"""What a step is told: the directive and the brief of its prompt, and its task's first message.

A step sees nothing of what was said in other steps. What it gets of them is what they handed over.
"""

from interlock.workflow.graph import NodeKind
from interlock.workflow.machine import DONE, VisitStatus
from interlock.workflow.rows import Standing, StepAtWork, Visit

TOOL = "complete_step"

# What may be handed from step to step.
MAX_SUMMARY = 4_000
MAX_ARTIFACTS = 20
MAX_ARTIFACT = 20_000
MAX_INPUT = 50_000
# What one step is told of all of it.
MAX_TOLD = 60_000
MAX_STEPS_TOLD = 30


_DIRECTIVE = """\
You carry out one step of the workflow {workflow} ({description}).
The step is {node}, visit {visit}. Do this step and no other: the others have their own time and their own \
agents, and do not see what is said here.
When it is done, call {tool} with a summary, and with every text that later steps need as an artifact; \
then end with a short answer.
{outcome}"""


def run_directive(step: StepAtWork) -> str:
    """What every step is told of being one."""
    workflow, place = step.workflow, step.visit.place
    allowed = workflow.outcomes_of(place.node) or (DONE,)
    if allowed == (DONE,):
        outcome = f"Its outcome is {DONE}."
    else:
        outcome = f"Its outcome is one of: {', '.join(allowed)}. It decides where the run goes on."
    return _DIRECTIVE.format(
        workflow=workflow.name,
        description=workflow.description,
        node=place.node,
        visit=step.visit.visit,
        tool=TOOL,
        outcome=outcome,
    )


def node_brief(step: StepAtWork) -> str:
    return step.node.brief.text if step.node.brief else ""


def step_message(standing: Standing, visit: Visit, workflow: str) -> str:
    """The first message of a step's task."""
    parts = [f"Step {visit.node} of the workflow {workflow}, visit {visit.visit}."]
    if standing.run.input:
        parts.append(f"What this run is for:\n{standing.run.input}")
    earlier = [
        each
        for each in standing.visits
        if each.kind is NodeKind.step and each.status is VisitStatus.completed
    ]
    if earlier:
        lines = [f"- {each.node}: {each.outcome}. {each.summary or ''}".rstrip() for each in earlier]
        left_out = len(lines) - MAX_STEPS_TOLD
        told = [f"({left_out} steps before these)"] if left_out > 0 else []
        parts.append("\n".join(["Steps that were completed:", *told, *lines[-MAX_STEPS_TOLD:]]))
    parts += _artifacts(standing)
    return "\n\n".join(parts)


def _artifacts(standing: Standing) -> list[str]:
    artifacts = standing.artifacts
    room = MAX_TOLD // max(1, len(artifacts))
    return [
        f"Artifact {name}:\n{text}"
        if len(text) <= room
        else f"Artifact {name}, the first {room} of {len(text)} characters:\n{text[:room]}"
        for name, text in artifacts.items()
    ]
