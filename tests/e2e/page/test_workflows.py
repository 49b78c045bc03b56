"""Workflows in the page: the graph as a run goes over it, its questions, and what a person does with it."""

import re
import subprocess

import pytest
from playwright.sync_api import expect

from tests.e2e.page.furniture import EXAMPLE, put_workflow
from tests.e2e.page.judges import PHONE, serious, sticks_out
from tests.harness.browser import go
from tests.harness.scripted_model import Gate, called, held, said

ASKS = {
    "type": "confirmation",
    "message": "Is the plan right?",
    "confirm_label": "It is",
    "deny_label": "It is not",
}


def _completes(**given):
    return called(("complete_step", {"summary": "So far.", **given}))


def _step(model, workflow, node, *turns, visit=1):
    model.plays(f"Step {node} of the workflow {workflow}, visit {visit}.", *turns)


def _goes_well(model, workflow, **turns):
    """Every step of a run that nobody sends back; single ones can be told otherwise."""
    usual = {
        "plan": (_completes(artifacts={"plan": "Write one file."}), said("Planned.")),
        "build": (_completes(), said("Built.")),
        "review": (_completes(outcome="approve"), said("Good.")),
    }
    for node, answers in (usual | turns).items():
        _step(model, workflow, node, *answers)


def _start(page, workflow, words="greet by name", mode="coding"):
    page.evaluate(f"location.hash = '#/workflows/{workflow}'")
    page.get_by_label("Task for this run").fill(words)
    page.get_by_role("radio", name=re.compile(rf"^{mode}\b")).check()
    page.get_by_role("button", name="Start run").click()
    page.wait_for_url(re.compile("#/runs/"))


def _node(page, name, state):
    """A node of the drawn graph, in this state."""
    return page.locator(f'.g-node[data-node="{name}"][data-state="{state}"]')


def _stands(page, status):
    expect(page.locator(f'[data-run-status="{status}"]')).to_be_visible()


def test_the_graph_shows_a_run_and_its_way_back(server, page, model):
    put_workflow(server, "loop")
    first, second = Gate(), Gate()
    _goes_well(model, "loop", build=(_completes(), held("Working ", first, "and done.")))
    back = _completes(outcome="needs_work", artifacts={"findings": "The farewell is missing."})
    _step(model, "loop", "review", back, said("It goes back."))
    _step(model, "loop", "build", _completes(), held("Again ", second, "and done."), visit=2)
    _step(model, "loop", "review", _completes(outcome="approve"), said("Good."), visit=2)

    go(page, "Workflows")
    page.get_by_role("link", name="loop", exact=True).click()
    expect(_node(page, "verdict", "none")).to_be_visible()
    _start(page, "loop")
    expect(_node(page, "plan", "done")).to_contain_text("done")
    expect(_node(page, "build", "running")).to_have_class(re.compile("is-current"))
    expect(_node(page, "done", "none")).to_be_visible()
    expect(page.locator('[data-edge="verdict build"]')).not_to_have_class(re.compile("is-taken"))

    first.set()
    expect(_node(page, "build", "running")).to_contain_text("running · done once")
    expect(page.locator('[data-edge="verdict build"]')).to_have_class(re.compile("is-back"))
    expect(page.locator('[data-edge="verdict build"]')).to_have_class(re.compile("is-taken"))
    page.get_by_text("Show as list").click()
    listed = page.locator('.g-list > [data-node="build"]')
    expect(listed).to_contain_text("running · done once")
    expect(listed.get_by_text("current", exact=True)).to_be_visible()

    second.set()
    _stands(page, "done")
    expect(_node(page, "build", "done")).to_contain_text("done 2×")
    expect(page.locator(".g-node.is-current")).to_have_count(0)
    visits = page.get_by_role("heading", name="History").locator("xpath=..").locator("[data-visit]")
    expect(visits).to_have_count(8)
    page.get_by_text("Artifact findings").click()
    expect(page.get_by_text("The farewell is missing.")).to_be_visible()
    visits.nth(1).get_by_text("Details", exact=True).click()
    expect(visits.nth(1).get_by_text("Working and done.")).to_be_visible()
    page.get_by_role("link", name="Open in Activity").click()
    expect(page.get_by_role("treegrid")).to_be_visible()


def test_a_question_of_a_run_is_answered_right_there(page, server, model, enter):
    put_workflow(server, "asking")
    plan = (called(("ask_user", ASKS)), _completes(), said("Planned."))
    _goes_well(model, "asking", plan=plan)
    _start(page, "asking")
    question = page.get_by_role("region", name="Waiting for your answer")
    expect(question).to_contain_text("Is the plan right?")
    expect(_node(page, "plan", "waiting")).to_contain_text("waiting for you")
    expect(page.locator(".question.open")).to_have_count(1)
    assert serious(page) == []

    page.get_by_role("button", name="Pause").click()
    _stands(page, "paused")
    page.get_by_role("button", name="Resume").click()
    _stands(page, "running")
    phone = enter(server, page.url.partition("/")[2].partition("/")[2].partition("/")[2], **PHONE)
    expect(phone.get_by_role("button", name="It is", exact=True)).to_be_visible()
    assert sticks_out(phone) == []
    question.get_by_role("button", name="It is", exact=True).focus()
    page.keyboard.press("Enter")
    _stands(page, "done")
    expect(question).to_have_count(0)
    expect(phone.locator('[data-run-status="done"]')).to_be_visible()


OUTER = """description = "Another workflow as a part of this one"
start = "polish"

[nodes.polish]
kind = "subworkflow"
workflow = "inner"

[nodes.over]
kind = "end"

[[edges]]
from = "polish"
to = "over"
"""


def test_the_graph_follows_a_run_into_another_workflow(page, server, model):
    put_workflow(server, "inner")
    outer = server.home / "workspace" / "workflows" / "outer"
    outer.mkdir()
    (outer / "workflow.toml").write_text(OUTER)
    gate = Gate()
    _goes_well(model, "inner", build=(_completes(), held("Inside ", gate, "and done.")))
    _start(page, "outer")
    expect(_node(page, "build", "running")).to_be_visible()
    graphs = page.get_by_role("group", name="Select graph")
    expect(graphs.get_by_role("button", name="polish#1", pressed=True)).to_be_visible()
    graphs.get_by_role("button", name="outer").click()
    expect(_node(page, "polish", "running")).to_have_class(re.compile("is-current"))
    gate.set()
    _stands(page, "done")
    expect(_node(page, "polish", "done")).to_be_visible()


def test_a_run_is_stopped_for_good(page, server, model):
    put_workflow(server, "halted")
    gate = Gate()
    _goes_well(model, "halted", plan=(held("On ", gate, "and on."),))
    _start(page, "halted")
    expect(_node(page, "plan", "running")).to_be_visible()
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog", name="Stop this run?")
    dialog.get_by_role("button", name="Cancel").click()
    _stands(page, "running")
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog.get_by_role("button", name="Stop", exact=True).click()
    _stands(page, "stopped")
    gate.set()
    expect(_node(page, "plan", "cancelled")).to_be_visible()
    for name in ("Stop", "Pause", "Resume", "Retry step"):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
    expect(page.get_by_role("link", name="Run again")).to_be_visible()


def test_a_step_that_got_nowhere_is_retried(page, server, model):
    put_workflow(server, "retried")
    # Without an outcome nobody knows where to go on.
    _goes_well(model, "retried", review=([said("Well…"), _completes(outcome="approve")], said("Good.")))
    _start(page, "retried")
    _stands(page, "paused")
    expect(_node(page, "review", "failed")).to_be_visible()
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)
    expect(page.get_by_text("Fix the cause and retry the step")).to_be_visible()
    page.get_by_role("button", name="Retry step").click()
    _stands(page, "done")
    expect(_node(page, "review", "done")).to_be_visible()


def test_starting_by_keyboard_and_only_in_a_chosen_mode(page, server, model):
    put_workflow(server, "typed")
    _goes_well(model, "typed")
    page.evaluate("location.hash = '#/workflows/typed'")
    words = page.get_by_label("Task for this run")
    words.focus()
    page.keyboard.type("by hand")
    for _ in range(2):
        page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Start run")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("Choose a mode for the run.")
    expect(page.get_by_role("radio", name=re.compile("^chat_safe"))).to_be_focused()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    expect(page.get_by_role("radio", name=re.compile("^coding"))).to_be_checked()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("#/runs/"))
    _stands(page, "done")
    page.get_by_role("link", name="Workflows", exact=True).last.click()
    listed = page.get_by_role("link").filter(has_text="by hand")
    expect(listed.filter(has_text="done")).to_be_visible()
    assert [each["mode"] for each in server.events("run.started")][-1] == "coding"


def test_what_is_wrong_with_a_workflow_is_said_with_its_place(page, server):
    put_workflow(server, "faulty")
    (server.home / "workspace" / "workflows" / "faulty" / "build.md").unlink()
    go(page, "Workflows")
    card = page.get_by_role("listitem").filter(has_text="faulty")
    expect(card).to_contain_text("workflow.toml")
    expect(card).to_contain_text("nodes.build has no file build.md")
    card.get_by_role("link", name="faulty").click()
    page.wait_for_url(re.compile("#/workflows/faulty"))
    expect(page.get_by_role("heading", name="faulty", level=1)).to_be_visible()
    expect(page.get_by_text("Fix the files to run it.")).to_be_visible()
    expect(page.get_by_role("button", name="Start run")).to_have_count(0)


def test_where_there_are_none_it_says_how_to_get_one(serve, enter, model):
    bare = serve("", **model.variables)
    page = enter(bare)
    go(page, "Workflows")
    expect(page.get_by_role("heading", name="No workflows yet")).to_be_visible()
    command = page.get_by_text(f"examples/workflows/{EXAMPLE.name}")
    expect(command).to_be_visible()
    assert serious(page) == []
    subprocess.run(["bash", "-c", command.inner_text()], cwd=EXAMPLE.parents[2], check=True)
    page.reload()
    expect(page.get_by_role("link", name=EXAMPLE.name)).to_be_visible()
    go(page, "Servers")
    expect(page.get_by_text("interlock mcp add NAME")).to_be_visible()
    assert serious(page) == []


@pytest.mark.parametrize("colours", ["light", pytest.param("dark", marks=pytest.mark.full)])
def test_a_run_shuts_nobody_out(server, enter, model, colours):
    name = f"seen_{colours}"
    put_workflow(server, name)
    _goes_well(model, name, review=(said("Well…"),))
    page = enter(server, color_scheme=colours)
    _start(page, name)
    _stands(page, "paused")
    page.get_by_text("Show as list").click()
    page.get_by_text("Details", exact=True).first.click()
    page.get_by_text("Artifact plan").click()
    assert serious(page) == []


def test_a_run_that_is_deleted_is_not_shown_any_more(server, page, model):
    put_workflow(server, "short")
    _goes_well(model, "short")
    _start(page, "short", words="paint it mauve")
    _stands(page, "done")
    item = page.get_by_role("listitem").filter(has=page.get_by_role("link", name=re.compile("^short")))
    item.first.get_by_role("button").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("paint it mauve")).to_have_count(0)
    expect(page.get_by_role("heading", name="Workflows")).to_be_visible()
