"""A field of the tool policy is one declaration: added to one file, it is everywhere (REDESIGN, idea 6)."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.policy.policy_fields import FIELDS, PolicyPart, ToolPolicy

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "interlock"

ADDED = """
    max_files: Annotated[
        Annotated[int, Field(gt=0, le=1000), Strict(), FieldKind("bytes", min)] | None,
        Declaration(
            default=100,
            variable=Variable("TOOL_MAX_FILES"),
            label=Text("Max files", "文件数上限"),
            hint=Text("Most files of one call.", "一次调用最多涉及的文件。"),
            doc="The most files that a call may touch.",
        ),
    ] = None
    careful: Annotated[
        Switch | None,
        Declaration(
            if_unset=True,
            set_by=frozenset({PolicyLayer.agent}),
            label=Text("Careful", "谨慎"),
            hint=Text("Set by agents alone.", "仅由智能体设置。"),
        ),
    ] = None

"""

PROBE = """
import json, sys
import interlock
from interlock.agent.definitions import AgentHeader
from interlock.agent.front_matter import header_keys, read_headed_file
from interlock.agent.policy_text import render_policy
from interlock.config.modes import ToolMode
from interlock.config.settings import load_settings
from interlock.policy.authority import canonical_form, compile_authority
from interlock.policy.authority_inputs import AuthorityInputs
from interlock.policy.policy_fields import (
    CLOSED_POLICY, form_description, merge_tool_policies, policy_of, values_of
)
from interlock.tools.registry import ToolRegistry
from interlock.wiring.authority_inputs import ceiling
from interlock.workflow.parser import _StepHeader

def compiled(value):
    inputs = AuthorityInputs(mode=ToolMode.chat, settings=policy_of({"fs.max_files": value}))
    return compile_authority(ToolRegistry(), inputs)

layers = [policy_of({"fs.max_files": value}) for value in (9, 4, 7)]
file = "---\\ndescription: d\\ntools.fs.max_files: 8\\n---\\nYou read."
wrong = file.replace("8", "eight")
read = [
    read_headed_file("a.md", text, AgentHeader, None, no_body="", context="a") for text in (file, wrong)
]
form = [field for group in form_description() for field in group["fields"]]
print(json.dumps({
    "package": interlock.__file__,
    "merged": values_of(merge_tool_policies(*layers))["fs.max_files"],
    "closed": values_of(CLOSED_POLICY)["fs.careful"],
    "variable": values_of(ceiling(load_settings()))["fs.max_files"],
    "digests": len({compiled(value).digest for value in (1, 2, None)}),
    "in_force": [compiled(None).policy.fs.max_files, compiled(3).policy.fs.max_files],
    "canonical": canonical_form(compiled(3))["policy"]["fs"]["max_files"],
    "prompt": [line for line in render_policy(compiled(5)).splitlines() if "maxFiles" in line],
    "agent": read[0].header.tools.fs.max_files,
    "problem": [str(problem) for problem in read[1].problems],
    "agent_keys": [key for key in header_keys(AgentHeader) if key in sys.argv],
    "step_keys": [key for key in header_keys(_StepHeader) if key in sys.argv],
    "form": [field for field in form if field["path"] in sys.argv],
}))
"""


DOCS = """
from pathlib import Path
from scripts.reference import with_policy_fields
print(with_policy_fields(Path("docs/settings.md").read_text()))
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory) -> Path:
    """The package as it is, with two more fields in its one file of declarations."""
    folder = tmp_path_factory.mktemp("extended")
    package = folder / "interlock"
    package.mkdir()
    for entry in PACKAGE.iterdir():
        if entry.name not in {"policy", "__pycache__"}:
            (package / entry.name).symlink_to(entry)
    shutil.copytree(PACKAGE / "policy", package / "policy", ignore=shutil.ignore_patterns("__pycache__"))
    declarations = package / "policy" / "policy_fields.py"
    before, after = declarations.read_text().split("\n\nclass ShellPolicy", 1)
    declarations.write_text(f"{before.rstrip()}{ADDED}\nclass ShellPolicy{after}")
    return folder


def run(extended: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(extended), str(ROOT)])
    state = str(extended / "state")
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "INTERLOCK_STATE_DIR": state, **variables},
    )


def test_a_field_that_is_added_to_its_file_is_everywhere(extended):
    paths = ["tools.fs.max_files", "tools.fs.careful"]
    done = run(extended, "-c", PROBE, *paths, TOOL_MAX_FILES="6")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["package"].startswith(str(extended))
    assert (found["merged"], found["closed"], found["variable"], found["agent"]) == (4, False, 6, 8)
    assert found["digests"] == 3
    assert (found["in_force"], found["canonical"]) == ([100, 3], 3)
    assert found["prompt"] == ["fs.maxFiles: 5"]
    assert found["problem"] == ["a.md:3: tools.fs.max_files must be a whole number, not 'eight'"]
    assert found["agent_keys"] == paths
    assert found["step_keys"] == ["tools.fs.max_files"]
    [shown] = found["form"]
    assert (shown["type"], shown["label"]) == ("bytes", {"en": "Max files", "zh": "文件数上限"})


def test_the_documentation_has_a_field_that_is_added(extended):
    docs = run(extended, "-c", DOCS).stdout
    assert "| `TOOL_MAX_FILES` | unset | Limits `tools.fs.max_files`. |" in docs
    assert "| `tools.fs.max_files` | `100` | The most files that a call may touch. |" in docs
    assert "`tools.fs.careful`" not in docs


def test_the_commands_set_and_show_a_field_that_is_added(extended):
    saved = run(extended, "-m", "interlock", "settings", "set", "tools.fs.max_files", "50")
    assert saved.returncode == 0, saved.stderr
    told = run(extended, "-m", "interlock", "settings", "show", "--json", AUTONOUS_TOOL_MAX_FILES="20")
    shown = json.loads(told.stdout)
    stored, effective = (shown[name]["tools"]["fs"]["max_files"] for name in ("settings", "effective"))
    assert (stored, effective) == (50, 20)
    refused = run(extended, "-m", "interlock", "settings", "set", "tools.fs.max_files", "0")
    assert "tools.fs.max_files" in refused.stderr
    refused = run(extended, "-m", "interlock", "settings", "set", "tools.fs.careful", "true")
    assert "tools.fs.careful: the stored settings cannot set this" in refused.stderr
    wrong = run(extended, "-m", "interlock", "settings", "show", TOOL_MAX_FILES="many")
    assert "TOOL_MAX_FILES: it must be a whole number" in wrong.stderr


def test_every_field_and_every_group_has_its_texts_in_both_languages():
    parts = {field.part for field in FIELDS.values()}
    assert parts == set(PolicyPart.__subclasses__())
    assert ToolPolicy in parts
    texts = [text for part in parts for text in (part.title, part.about)]
    texts += [text for field in FIELDS.values() for text in (field.declared.label, field.declared.hint)]
    texts += [text for field in FIELDS.values() for _, text in field.kind.choices]
    for text in texts:
        assert text.en
        assert text.zh
        assert set(re.findall(r"\{\w+\}", text.en)) == set(re.findall(r"\{\w+\}", text.zh)), text
        assert "管理员" in text.zh or "operator" not in text.en, text
