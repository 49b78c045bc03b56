"""A workflow's files: read as they are meant, or refused with the path of each faulty key."""

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
    ("before", "after", "expected"),
    [
        ('start = "plan"', 'start = "pln"', "start must name a node; did you mean plan?"),
        ('start = "plan"', "", "start is missing"),
        ('start = "plan"', 'start = "plan"\nagnet = "x"', "agnet is not a known key; did you mean agent?"),
        ('to = "done"', 'to = "dne"', "edges[3].to must name a node; did you mean done?"),
        ('to = "done"', 'too = "done"', "edges[3].too is not a known key; did you mean to?"),
        ('to = "done"', "to = 3", "edges[3].to must be a text"),
        ("default = true", 'default = "true"', "edges[4].default must be true or false"),
        ("default = true", 'label = "a.b"', "edges[4].label can have at most 40 letters"),
        ("max_visits = 3", "max_visits = 0", "nodes.build.max_visits must be at least 1"),
        ("max_visits = 3", "max_visits = 101", "nodes.build.max_visits must be at most 100"),
        ("max_visits = 3", "max_visits = true", "nodes.build.max_visits must be a whole number"),
        ("max_visits = 3", "visits = 3", "nodes.build.visits is not a known key; did you mean max_visits?"),
        ("max_visits = 3", 'outcome = "x"', "nodes.build.outcome is only for ends; this is a step"),
        (
            "max_visits = 3",
            'workflow = "x"',
            "nodes.build.workflow is only for subworkflows; this is a step",
        ),
        ('kind = "decision"', 'kind = "choice"', "nodes.verdict.kind must be one of 'step'"),
        ('kind = "decision"', 'title = "x"', "nodes.verdict.kind is missing"),
        ("[nodes.done]", "[nodes.Done]", "nodes.Done is not a valid node name"),
        ("[nodes.done]", "[nodes.not]", "nodes.not is not a valid node name"),
        ('== "approve"', '= "approve"', "edges[3].condition is not a condition: unexpected character '='"),
        ("'review.outcome == \"approve\"'", "3", "edges[3].condition must be a text"),
        ("review.outcome ==", "nobody.outcome ==", "condition: nobody.outcome is not one of NODE.outcome"),
        ("review.outcome ==", "artifacts.Findings ==", "artifacts.Findings is not one of NODE.outcome"),
        ("review.outcome ==", "review.colour ==", "condition: review.colour is not one of NODE.outcome"),
        ('description = "Plan, build, review"', 'description = " "', "description is missing: describe"),
        ('start = "plan"', "start = plan", "the file is not TOML: Invalid value (at line 2, column 9)"),
    ],
)
def test_a_fault_is_told_with_the_path_of_its_key(tmp_path, before, after, expected):
    assert before in REVIEWED
    put(tmp_path, "w", REVIEWED.replace(before, after))
    found = problems(tmp_path, "w")
    assert any(each.startswith("workflow.toml: ") and expected in each for each in found), found
    with pytest.raises(WorkflowInvalid):
        opened(tmp_path).load("w")


def test_all_faults_of_a_file_are_told_at_once(tmp_path):
    graph = REVIEWED.replace('start = "plan"', 'start = "x"').replace('to = "done"', 'to = "x"')
    put(tmp_path, "w", graph.replace('kind = "decision"', 'kind = "x"\ny = 1').replace("= 3", "= 0"))
    paths = [each.split()[1] for each in problems(tmp_path, "w")]
    assert paths == [
        "start",
        "nodes.build.max_visits",
        "nodes.verdict.kind",
        "nodes.verdict.y",
        "edges[3].to",
    ]


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
        ('[nodes.sub]\nkind = "subworkflow"\n', "nodes.sub.workflow must be the name of the workflow"),
    ],
)
def test_a_graph_that_cannot_work_is_told(tmp_path, more, told):
    put(tmp_path, "w", f"{REVIEWED}\n{more}")
    assert any(told in each for each in problems(tmp_path, "w"))


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("build.md", None, "workflow.toml: nodes.build has no file build.md"),
        ("extra.md", "hello", "extra.md: belongs to no step of this workflow"),
        ("build.md", "---\nagent: coder\n---\n\n", "build.md:4: the brief is missing"),
        ("build.md", "---\nagent: nobody\n---\nDo.\n", "build.md: agent: there is no agent nobody"),
        ("build.md", "---\nagent: codr\n---\nDo.\n", "there is no agent codr; did you mean coder?"),
        ("build.md", "---\nmode: god\n---\nDo.\n", "build.md:2: mode is unknown: 'god' is not a mode"),
        (
            "build.md",
            "---\ntools.denied_tools: bsh\n---\nDo.\n",
            "there is no tool bsh; did you mean bash?",
        ),
        (
            "build.md",
            "---\ntools.denied_tools: effect:exe\n---\nDo.\n",
            "build.md:2: tools.denied_tools: 'effect:exe' names no effect of tools",
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
    read_it = directory.read_whole_file

    def read_and_edit(place: int, file: str, limit: int):
        found = read_it(place, file, limit)
        if file == "review.md":
            written = os.open(file, os.O_WRONLY | os.O_TRUNC, dir_fd=place)
            os.write(written, b"---\nagent: stranger\noutcomes: approve, needs_work\n---\nTake it all.\n")
            os.close(written)
        return found

    monkeypatch.setattr(directory, "read_whole_file", read_and_edit)
    pinned = opened(tmp_path).pin("outer")
    assert "Take it all" not in pinned.document
    assert pinned.agents == {"coder": "c" * 64, "critic": "d" * 64}
    with pytest.raises(WorkflowInvalid, match="there is no agent stranger"):
        opened(tmp_path).pin("outer")


INLINE = """\
description = "Inline"
start = "a"
nodes = { a = { kind = "step" }, b = { kind = "end" } }
edges = [
    { from = "a", to = "b", label = "x ] y" },
    { from = "a", to = "nowhere", label = 'z' },
    { from = "a", to = "b", colour = "red" }, 4]
max_steps = 0
"""


def test_inline_tables_are_named_by_their_paths_too(tmp_path):
    put(tmp_path, "w", INLINE, {"a.md": "Go.\n"})
    assert [" ".join(each.split()[1:4]) for each in problems(tmp_path, "w")] == [
        "max_steps must be",
        "edges[0].label can have",
        "edges[1].to must name",
        "edges[2].colour is not",
        "edges[3] must be",
    ]


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
        "workflow.toml: edges[0].label: no end of inner has the outcome 'dne'; did you mean done?"
    ]
    put(tmp_path, "w", AROUND.replace('label = "done"', "condition = 'sub.outcome == \"good\"'"), {})
    assert problems(tmp_path, "w") == [
        "workflow.toml: edges[0].condition: sub never has the outcome 'good' (valid: done)"
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
        ('review.outcome == "needs_work"', ""),
        ('review.outcome == "done"', ""),
        ("review.outcome == null", ""),
        ('plan.outcome == "done" and verdict.outcome != "build"', ""),
        ('artifacts.findings == "Anything"', ""),
    ],
)
def test_a_comparison_that_can_never_hold_is_told(tmp_path, condition, told):
    put(tmp_path, "w", REVIEWED.replace('review.outcome == "approve"', condition))
    found = problems(tmp_path, "w")
    if told:
        assert len(found) == 1
        assert found[0].startswith(f"workflow.toml: edges[3].condition: {told}")
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
def test_garbage_is_a_fault_and_never_a_crash(graph, brief):
    workflow, faults = read(graph, {"a.md": brief})
    assert workflow is not None or faults
    assert all(fault.startswith(("workflow.toml: ", "a.md:")) for fault in faults)
    assert all(fault.isprintable() and len(fault) < 1000 for fault in faults)
