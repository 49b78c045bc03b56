"""Protected names are read and not written, by whatever name they are reached."""

import pytest

from interlock.core.errors import ErrorCode, ToolError
from interlock.sandbox.paths import PathAccess
from tests.unit.sandbox.asked import refusal
from tests.unit.sandbox.conftest import territory_of

pytestmark = pytest.mark.usefixtures("both_ways")


@pytest.mark.parametrize(
    "asked",
    [
        ".git/hooks/pre-commit",
        ".git/hooks",
        ".git/config",
        ".git/HEAD",
        "sub/.git/head",
        ".git",
        ".git/modules",
        "sub/project/.git/hooks/pre-commit",
        "sub/project/.git",
        ".GIT/Hooks/pre-commit",
        ".git/CONFIG",
        ".git/modules/a/b/hooks/x",
        ".git/modules/hooks",
        ".mcp.json",
        "deep/.MCP.JSON",
        ".vscode",
        ".vscode/tasks.json",
        "a/.vscode/x/y",
        ".bashrc",
        ".config/fish/config.fish",
        ".config",
        ".g\u200cit/config",
        ".git\ufe0f/config",
        ".g\u034fit/config",
        ".git./config",
        ".git /hooks/x",
        ".vſcode/tasks.json",
    ],
)
@pytest.mark.parametrize("follow", [True, False])
def test_a_protected_name_is_read_but_not_written(roots, asked, follow):
    assert roots.resolver.find(asked, follow=follow)
    error = refusal(roots.resolver, asked, PathAccess.write, follow=follow)
    assert error.error_code is ErrorCode.PATH_DENIED
    assert "is protected" in error.message


@pytest.mark.parametrize(
    "asked",
    [
        ".gitignore",
        ".github/hooks",
        "git/hooks",
        "hooks",
        ".git/modules/a/HEAD",
        "x.vscode",
        ".config/other",
        "config",
        "mcp.json",
        ".git/hooks2",
        "README.md",
    ],
)
def test_a_name_that_only_looks_like_a_protected_one_is_written(roots, asked):
    assert roots.resolver.find(asked, PathAccess.write)


def test_a_link_does_not_lead_around_the_protection(roots):
    roots.write("ws/.git/hooks/pre-commit")
    roots.link("ws/innocent", ".git/hooks")
    assert "is protected" in refusal(roots.resolver, "innocent/pre-commit", PathAccess.write).message
    assert "is protected" in refusal(roots.resolver, "src/../innocent/x", PathAccess.write).message
    assert roots.resolver.find("innocent", PathAccess.write, follow=False).relative == "innocent"


def test_a_protected_folder_that_appears_in_between_is_not_reached(roots):
    roots.write("ws/.git/hooks/pre-commit", "old")
    (roots.inside / "tools").mkdir()
    place = roots.resolver.find("tools/pre-commit", PathAccess.write)
    (roots.inside / "tools").rmdir()
    roots.link("ws/tools", ".git/hooks")
    with pytest.raises(ToolError, match="is protected"), roots.resolver.parent(place, make=True):
        pass


def test_what_lies_in_a_moved_folder_is_judged_under_its_own_name(roots):
    place = roots.resolver.find("project", PathAccess.write, follow=False)
    for parts in ((".git", "config"), (".git",), ("a", ".VSCode")):
        with pytest.raises(ToolError, match="is protected"):
            roots.resolver.refuse_protected_below(place, parts)
    roots.resolver.refuse_protected_below(place, ("git", "config"))
    inner = roots.resolver.find(".git/modules/x", PathAccess.write, follow=False)
    with pytest.raises(ToolError, match="is protected"):
        roots.resolver.refuse_protected_below(inner, ("hooks",))


def test_the_setting_names_what_is_protected(roots):
    resolver = territory_of(roots.inside, protected_names=("deploy/*.key", "{a,b/c}", "straße", "**/x/y"))
    for asked in ("deploy/A.KEY", "sub/deploy/b.key/c", "a", "z/b/c", "STRASSE", "x/y", "q/x/y/z"):
        assert "is protected" in refusal(resolver, asked, PathAccess.write).message, asked
    for asked in ("deploy", "b", "x"):
        assert "is protected" in refusal(resolver, asked, PathAccess.write).message, asked
    for asked in ("deploy/a.txt", "b/d", "c", ".git/config", "y", "x/z"):
        assert resolver.find(asked, PathAccess.write), asked


def test_bytes_given_one_by_one_are_the_same_protected_name(roots):
    resolver = territory_of(roots.inside, protected_names=("ü",))
    for asked in ("ü", "\udcc3\udcbc", "u\u0308", "Ü"):
        assert "is protected" in refusal(resolver, asked, PathAccess.write).message


def test_a_root_inside_a_protected_folder_of_another_root_does_not_open_it(roots):
    (roots.inside / ".git/hooks").mkdir(parents=True)
    resolver = territory_of(roots.inside, roots.inside / ".git")
    assert "is protected" in refusal(resolver, f"{roots.inside}/.git/hooks/x", PathAccess.write).message
    alone = territory_of(roots.inside / ".git")
    assert alone.find("hooks/x", PathAccess.write)


LAYOUT = {"HEAD": "ref: refs/heads/main\n", "objects/pack/x": "", "refs/heads/x": ""}


@pytest.mark.parametrize("last", ["HEAD", "head", "objects/pack/x", "refs/heads/x", "refs", "Objects"])
@pytest.mark.parametrize("above", ["", "sub/deeper/"])
def test_what_would_complete_a_repository_outside_of_git_is_refused(roots, last, above):
    top = last.split("/")[0].casefold()
    for name, content in LAYOUT.items():
        if not name.casefold().startswith(top):
            assert roots.resolver.find(f"{above}{name}", PathAccess.write)
            roots.write(f"ws/{above}{name}", content)
    error = refusal(roots.resolver, f"{above}{last}", PathAccess.write)
    assert error.error_code is ErrorCode.PATH_DENIED
    assert "a git repository" in error.message


def test_a_head_and_a_commondir_are_a_repository_as_well(roots):
    roots.write("ws/HEAD", "ref: refs/heads/main\n")
    assert "a git repository" in refusal(roots.resolver, "commondir", PathAccess.write).message
    assert roots.resolver.find("objects", PathAccess.write)


def test_what_git_runs_is_not_written_in_a_repository_outside_of_git(roots):
    for name, content in LAYOUT.items():
        roots.write(f"ws/mirror.git/{name}", content)
    for name in ("config", "hooks/post-update", "hooks", "commondir", "CONFIG"):
        error = refusal(roots.resolver, f"mirror.git/{name}", PathAccess.write)
        assert (error.error_code, "is part of the git repository" in error.message) == (
            *(ErrorCode.PATH_DENIED, True),
        )
    for name in ("HEAD", "description", "refs/heads/y", "sub/config"):
        assert roots.resolver.find(f"mirror.git/{name}", PathAccess.write)


@pytest.mark.parametrize(
    "name", ["HEAD", "config", "hooks/x", "objects/x", "refs/x", "commondir", "api/config"]
)
def test_a_name_that_git_uses_is_an_ordinary_one_by_itself(roots, name):
    assert roots.resolver.find(name, PathAccess.write)
    roots.write(f"ws/{name}")
    assert roots.resolver.find(name, PathAccess.write)


def test_where_no_name_of_git_is_protected_neither_is_its_layout(roots):
    resolver = territory_of(roots.inside, protected_names=(".vscode",))
    for name in ("HEAD", "objects/x", "refs/x", "config"):
        assert resolver.find(name, PathAccess.write)
        roots.write(f"ws/{name}")
