"""A workflow's files: read as they are meant, or told with the line of what is wrong."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.config.modes import ToolMode
from interlock.workflow import directory
from interlock.workflow.directory import WorkflowInvalid, WorkflowNotFound, load_pinned_workflows
from interlock.workflow.graph import NodeKind
from tests.unit.workflow.graphs import REVIEWED, REVIEWED_FILES, opened, problems, put, read


def test_a_workflow_is_read_as_it_is_written():
    workflow, faults = read(REVIEWED)
    assert faults == []
    assert workflow.start == "plan"
    assert {name: node.kind for name, node in workflow.nodes.items()} == {
        "plan": NodeKind.step,
        "build": NodeKind.step,
        "review": NodeKind.step,
        "verdict": NodeKind.decision,
        "done": NodeKind.end,
    }
    assert workflow.nodes["plan"].brief.mode is ToolMode.plan
    assert workflow.nodes["build"].max_visits == 3
    assert workflow.nodes["review"].brief.tools.denied_tools == {"bash"}
    assert workflow.outcomes_of("review") == ("approve", "needs_work")
    assert workflow.agents == ("coder", "critic")
    assert [edge.label for edge in workflow.edges_from("verdict")] == ["", ""]


def line_of(text: str, words: str) -> int:
    return text[: text.index(words)].count("\n") + 1


@pytest.mark.parametrize(
    ("before", "after", "at", "told"),
    [
        ('start = "plan"', 'start = "pln"', 'start = "pln"', "start must name a node; did you mean plan?"),
        ('to = "done"', 'to = "dne"', 'to = "dne"', "to must name a node; did you mean done?"),
        ("max_visits = 3", "max_visits = 0", "max_visits = 0", "max_visits must be from 1 to 100"),
        ("max_visits = 3", "max_visits = true", "max_visits", "max_visits must be a whole number"),
        ("max_visits = 3", "visits = 3", "visits = 3", "there is no key visits here"),
        ('kind = "decision"', 'kind = "choice"', 'kind = "choice"', "kind must be one of step"),
        ("[nodes.done]", "[nodes.Done]", "[nodes.Done]", "'Done' is not a valid node name"),
        ('== "approve"', '= "approve"', "condition", "unexpected character '=' (at character 16)"),
        ("review.outcome ==", "nobody.outcome ==", "condition", "nobody.outcome is not one of"),
        ("review.outcome ==", "review.colour ==", "condition", "review.colour is not one of"),
        (
            'description = "Plan, build, review"',
            'description = ""',
            "description",
            "description is missing",
        ),
        ('start = "plan"', "start = plan", "start = plan", "the file is not TOML"),
        ('label = "x"', "", "[nodes.plan]", ""),
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path, before, after, at, told):
    graph = REVIEWED.replace(before, after)
    put(tmp_path, "w", graph)
    found = problems(tmp_path, "w")
    if not told:
        assert found == []
        return
    line = line_of(graph, at)
    assert any(each.startswith(f"workflow.toml:{line}: ") and told in each for each in found), found


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ('[nodes.island]\nkind = "end"\n', "island cannot be reached from plan"),
        (
            '[nodes.round]\nkind = "merge"\n[[edges]]\nfrom = "round"\nto = "round"\n',
            "no end node can be reached from round: its cycle has no exit",
        ),
        (
            '[nodes.round]\nkind = "merge"\n[[edges]]\nfrom = "round"\nto = "round"\n',
            "round can lead back to itself without a step in between",
        ),
        ('[nodes.stuck]\nkind = "merge"\n', "stuck has no outgoing edge and is not an end node"),
        ('[[edges]]\nfrom = "done"\nto = "plan"\n', "done is an end node and cannot have outgoing edges"),
        ('[[edges]]\nfrom = "plan"\nto = "done"\n', "plan has several outgoing edges"),
        ('[[edges]]\nfrom = "verdict"\nto = "plan"\n', "needs a condition, or default = true"),
        ('[[edges]]\nfrom = "verdict"\nto = "plan"\ndefault = true\n', "more than one default edge"),
        ('[[edges]]\nfrom = "verdict"\nto = "plan"\nlabel = "x"\n', "and has no labels"),
        ('[nodes.sub]\nkind = "subworkflow"\n', "sub needs workflow = the name"),
    ],
)
def test_a_graph_that_cannot_work_is_told(tmp_path, more, told):
    put(tmp_path, "w", f"{REVIEWED}\n{more}")
    assert any(told in each for each in problems(tmp_path, "w"))


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("build.md", None, "workflow.toml:7: the step build has no file build.md in this folder"),
        ("extra.md", "hello", "extra.md:1: belongs to no step of this workflow"),
        ("build.md", "---\nagent: coder\n---\n\n", "build.md:4: the brief is missing"),
        ("build.md", "---\nagent: nobody\n---\nDo.\n", "build.md:2: there is no agent nobody"),
        ("build.md", "---\nagent: codr\n---\nDo.\n", "there is no agent codr; did you mean coder?"),
        ("build.md", "---\nmode: god\n---\nDo.\n", "build.md:2: mode: 'god' is not a mode"),
        (
            "build.md",
            "---\ntools.denied_tools: bsh\n---\nDo.\n",
            "there is no tool bsh; did you mean bash?",
        ),
        ("build.md", "---\nx: y\ntools.fs.enabled: no\n---\nDo.\n", "build.md:3: tools.fs.enabled must be"),
        ("build.md", "---\nagnt: coder\n---\nDo.\n", "there is no key agnt; did you mean agent?"),
        ("build.md", "---\nagent: coder\n", "build.md:1: has front matter without an end"),
    ],
)
def test_a_steps_file_is_checked_too(tmp_path, file, text, told):
    files = {**REVIEWED_FILES, file: text}
    put(tmp_path, "w", files={name: content for name, content in files.items() if content is not None})
    assert any(told in each for each in problems(tmp_path, "w")), problems(tmp_path, "w")


def test_faults_of_files_and_of_the_graph_are_told_together(tmp_path):
    files = {**REVIEWED_FILES, "build.md": "---\nagent: nobody\nmode: god\n---\nDo.\n"}
    put(tmp_path, "w", REVIEWED.replace("default = true", 'condition = "false"'), files)
    told = " ".join(problems(tmp_path, "w"))
    assert "verdict needs a default edge" in told
    assert "there is no agent nobody" in told
    assert "'god' is not a mode" in told


def nested(name: str) -> str:
    return REVIEWED + (
        f'\n[nodes.sub]\nkind = "subworkflow"\nworkflow = "{name}"\n'
        '[[edges]]\nfrom = "verdict"\nto = "sub"\n'
        'condition = "build.visits > 1"\n[[edges]]\nfrom = "sub"\nto = "done"\n'
    )


def test_a_workflow_in_itself_is_refused_and_a_missing_one_too(tmp_path):
    put(tmp_path, "a", nested("b"))
    put(tmp_path, "b", nested("a"))
    put(tmp_path, "c", nested("nowhere"))
    assert any("a > b > a is a cycle" in each for each in problems(tmp_path, "a"))
    assert any("there is no workflow nowhere" in each for each in problems(tmp_path, "c"))


def test_workflows_lie_only_so_deep_in_one_another(tmp_path):
    for number in range(6):
        put(tmp_path, f"w{number}", nested(f"w{number + 1}") if number < 5 else REVIEWED)
    assert any("more than 4 workflows deep" in each for each in problems(tmp_path, "w0"))
    assert problems(tmp_path, "w2") == []


def test_what_is_pinned_holds_everything_and_its_hash_follows_every_file(tmp_path):
    put(tmp_path, "inner")
    put(tmp_path, "outer", nested("inner"))
    pinned = opened(tmp_path).pin("outer")
    assert sorted(pinned.workflows()) == ["inner", "outer"]
    assert pinned.agents == {"coder": "c" * 64, "critic": "d" * 64}
    (tmp_path / "inner" / "build.md").write_text("---\nagent: coder\n---\nBuild it well.\n")
    again = opened(tmp_path).pin("outer")
    assert again.digest != pinned.digest
    assert "Build it well." in again.workflows()["inner"].nodes["build"].brief.text
    assert load_pinned_workflows(pinned.document)["inner"].nodes["build"].brief.text == "Build it."


def test_what_is_pinned_is_what_was_checked_though_somebody_edits_it_meanwhile(tmp_path, monkeypatch):
    """Whoever read a file twice would find another brief the second time, by an agent that is not there."""
    put(tmp_path, "inner")
    put(tmp_path, "outer", nested("inner"))
    read_it = directory.read_regular_file

    def read_and_edit(place: int, file: str, limit: int):
        found = read_it(place, file, limit)
        if file == "review.md":
            written = os.open(file, os.O_WRONLY | os.O_TRUNC, dir_fd=place)
            os.write(written, b"---\nagent: stranger\noutcomes: approve, needs_work\n---\nTake it all.\n")
            os.close(written)
        return found

    monkeypatch.setattr(directory, "read_regular_file", read_and_edit)
    pinned = opened(tmp_path).pin("outer")
    assert "Take it all" not in pinned.document
    assert pinned.agents == {"coder": "c" * 64, "critic": "d" * 64}
    with pytest.raises(WorkflowInvalid, match="there is no agent stranger"):
        opened(tmp_path).pin("outer")


INLINE = """\
description = "Inline"
start = "a"
nodes = { a = { kind = "step" }, b = { kind = "end" } }
# [ a bracket in a comment, and one in a text below
edges = [
    { from = "a", to = "b", label = "x ] y" },

    { from = "a", to = "nowhere", label = 'z' }, # ]
    { from = "a",
      to = "b", colour = "red" }]
max_steps = 0
"""


def test_the_lines_of_edges_that_are_written_in_a_list(tmp_path):
    graph = INLINE.replace('{ from = "a",\n      to', '{ from = "a", to')
    put(tmp_path, "w", graph, {"a.md": "Go.\n"})
    found = problems(tmp_path, "w")
    assert any(each.startswith("workflow.toml:6: label can have") for each in found)
    assert any(each.startswith("workflow.toml:8: to must name a node") for each in found)
    assert any(each.startswith("workflow.toml:9: there is no key colour here") for each in found)
    assert any(each.startswith("workflow.toml:10: max_steps must be") for each in found)


AROUND = """\
description = "Around a review"
start = "sub"
[nodes.sub]
kind = "subworkflow"
workflow = "inner"
[nodes.good]
kind = "end"
[nodes.bad]
kind = "end"
[[edges]]
from = "sub"
to = "good"
label = "done"
[[edges]]
from = "sub"
to = "bad"
default = true
"""


def test_a_label_that_no_end_of_the_workflow_inside_has_is_told(tmp_path):
    put(tmp_path, "inner")
    put(tmp_path, "w", AROUND, {})
    assert problems(tmp_path, "w") == []
    put(tmp_path, "w", AROUND.replace('label = "done"', 'label = "dne"'), {})
    assert problems(tmp_path, "w") == [
        "workflow.toml:10: no end of inner has the outcome 'dne'; did you mean done?"
    ]
    put(tmp_path, "w", AROUND.replace('label = "done"', "condition = 'sub.outcome == \"good\"'"), {})
    assert problems(tmp_path, "w") == [
        "workflow.toml:10: condition: sub never has the outcome 'good' (valid: done)"
    ]


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ('review.outcome == "aprove"', "review never has the outcome 'aprove'; did you mean approve?"),
        ('"aprove" != review.outcome', "review never has the outcome 'aprove'; did you mean approve?"),
        ('not (run.steps > 3 or review.outcome == "no")', "review never has the outcome 'no' (valid: app"),
        ("review.outcome == 3", "review never has the outcome '3'"),
        ('plan.outcome == "approve"', "plan never has the outcome 'approve' (valid: done)"),
        ('verdict.outcome == "review"', "verdict never has the outcome 'review' (valid: done, build)"),
        ('artifacts.Findings == "x"', "Findings is not a valid artifact name"),
        ('review.outcome == "needs_work"', ""),
        ('review.outcome == "done"', ""),
        ("review.outcome == null", ""),
        ('plan.outcome == "done" and verdict.outcome != "build"', ""),
        ('artifacts.findings == "Anything"', ""),
    ],
)
def test_a_comparison_that_can_never_hold_is_told(tmp_path, condition, told):
    put(tmp_path, "w", REVIEWED.replace('review.outcome == "approve"', condition))
    line = line_of(REVIEWED, '[[edges]]\nfrom = "verdict"\nto = "done"')
    found = problems(tmp_path, "w")
    if told:
        assert len(found) == 1
        assert found[0].startswith(f"workflow.toml:{line}: condition: {told}")
    else:
        assert found == []


def test_a_link_is_not_read_and_a_faulty_workflow_is_not_loaded(tmp_path):
    put(tmp_path, "w")
    (tmp_path / "elsewhere.md").write_text("Do what I say.\n")
    (tmp_path / "w" / "build.md").unlink()
    (tmp_path / "w" / "build.md").symlink_to(tmp_path / "elsewhere.md")
    assert any("build.md:1: is a symlink" in each for each in problems(tmp_path, "w"))
    with pytest.raises(WorkflowInvalid, match="is a symlink"):
        opened(tmp_path).pin("w")
    with pytest.raises(WorkflowNotFound, match="did you mean w"):
        opened(tmp_path).load("ww")


PIECES = st.sampled_from(
    ["[nodes.a]\n", "[[edges]]\n", 'kind = "step"\n', 'from = "a"\n', 'to = "b"\n', "condition = ", '"""',
     "[nodes]\n", "edges = 3\n", "nodes = []\n", 'start = "a"\n', "]]", "x.y = 1\n",
     "[[nodes.a]]\n", "\x00"]
)  # fmt: skip


@given(st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=25).map("".join)), st.text(max_size=80))
def test_garbage_is_a_fault_with_a_line_and_never_a_crash(graph, brief):
    workflow, faults = read(graph, {"a.md": brief})
    assert workflow is not None or faults
    for fault in faults:
        file, line, _ = fault.split(":", 2)
        assert 1 <= int(line) <= (graph if file == "workflow.toml" else brief).count("\n") + 1
