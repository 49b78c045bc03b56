"""Patterns that a model gives: judged before anything is looked at."""

import pytest

from interlock.core.errors import ErrorCode, ToolError
from interlock.sandbox.paths import PathResolver
from interlock.sandbox.profile import SandboxProfile
from interlock.tools.files.glob_arguments import judged_pattern


@pytest.fixture
def judge(tmp_path):
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "in").symlink_to("src")
    resolver = PathResolver(SandboxProfile((root,)))

    def judge(pattern: str, path: str = "."):
        return judged_pattern(pattern, "glob", resolver.find(path), resolver)

    return judge


@pytest.mark.parametrize(
    "pattern", ["*", "**", "src/*", "in/*", "out", "a..b", "...", "~/x", "$HOME/*", "*/x"]
)
def test_a_pattern_that_stays_inside_is_taken(judge, pattern):
    assert judge(pattern) is not None


@pytest.mark.parametrize(
    "pattern",
    ["..", "../x", "/x", "a/../b", "{a,..}/x", "{/etc,src}/x", "out/x", "src/../out/x", "{out,in}/x"],
)
def test_a_pattern_that_leads_out_is_denied(judge, pattern):
    with pytest.raises(ToolError) as denied:
        judge(pattern)
    assert denied.value.error_code is ErrorCode.PATH_DENIED


def test_folders_are_judged_from_the_folder_that_is_searched(judge):
    assert judge("out/x", "src") is not None


@pytest.mark.parametrize("pattern", ["a\0b", "{a,b}" * 20, "", ".", "./."])
def test_what_is_no_pattern_is_refused_by_argument(judge, pattern):
    with pytest.raises(ToolError, match=r"^glob: ") as refused:
        judge(pattern)
    assert refused.value.error_code is ErrorCode.INVALID_ARGS
