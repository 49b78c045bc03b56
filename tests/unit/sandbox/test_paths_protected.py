"""Protected names are read and not written, by whatever name they are reached."""

import pytest

from interlock.infra.errors import ErrorCode, ToolError
from interlock.sandbox.paths import Access
from tests.unit.sandbox.asked import refusal
from tests.unit.sandbox.conftest import territory_of

pytestmark = pytest.mark.usefixtures("both_ways")


@pytest.mark.parametrize(
    "asked",
    [
        ".git/hooks/pre-commit",
        ".git/hooks",
        ".git/config",
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
def test_a_protected_name_is_read_but_not_written(world, asked, follow):
    assert world.territory.find(asked, follow=follow)
    error = refusal(world.territory, asked, Access.write, follow=follow)
    assert error.error_code is ErrorCode.PATH_DENIED
    assert "is protected" in error.message


@pytest.mark.parametrize(
    "asked",
    [
        ".gitignore",
        ".github/hooks",
        "git/hooks",
        "hooks",
        ".git/HEAD",
        ".git/modules/a/HEAD",
        "x.vscode",
        ".config/other",
        "config",
        "mcp.json",
        ".git/hooks2",
        "README.md",
    ],
)
def test_a_name_that_only_looks_like_a_protected_one_is_written(world, asked):
    assert world.territory.find(asked, Access.write)


def test_a_link_does_not_lead_around_the_protection(world):
    world.write("ws/.git/hooks/pre-commit")
    world.link("ws/innocent", ".git/hooks")
    assert "is protected" in refusal(world.territory, "innocent/pre-commit", Access.write).message
    assert "is protected" in refusal(world.territory, "src/../innocent/x", Access.write).message
    assert world.territory.find("innocent", Access.write, follow=False).relative == "innocent"


def test_a_protected_folder_that_appears_in_between_is_not_reached(world):
    world.write("ws/.git/hooks/pre-commit", "old")
    (world.inside / "tools").mkdir()
    place = world.territory.find("tools/pre-commit", Access.write)
    (world.inside / "tools").rmdir()
    world.link("ws/tools", ".git/hooks")
    with pytest.raises(ToolError, match="is protected"), world.territory.parent(place, make=True):
        pass


def test_what_lies_in_a_moved_folder_is_judged_under_its_own_name(world):
    place = world.territory.find("project", Access.write, follow=False)
    for parts in ((".git", "config"), (".git",), ("a", ".VSCode")):
        with pytest.raises(ToolError, match="is protected"):
            world.territory.refuse_protected_below(place, parts)
    world.territory.refuse_protected_below(place, ("git", "config"))
    inner = world.territory.find(".git/modules/x", Access.write, follow=False)
    with pytest.raises(ToolError, match="is protected"):
        world.territory.refuse_protected_below(inner, ("hooks",))


def test_the_setting_names_what_is_protected(world):
    territory = territory_of(world.inside, protected_names=("deploy/*.key", "{a,b/c}", "straße", "**/x/y"))
    for asked in ("deploy/A.KEY", "sub/deploy/b.key/c", "a", "z/b/c", "STRASSE", "x/y", "q/x/y/z"):
        assert "is protected" in refusal(territory, asked, Access.write).message, asked
    for asked in ("deploy", "b", "x"):
        assert "is protected" in refusal(territory, asked, Access.write).message, asked
    for asked in ("deploy/a.txt", "b/d", "c", ".git/config", "y", "x/z"):
        assert territory.find(asked, Access.write), asked


def test_bytes_given_one_by_one_are_the_same_protected_name(world):
    territory = territory_of(world.inside, protected_names=("ü",))
    for asked in ("ü", "\udcc3\udcbc", "u\u0308", "Ü"):
        assert "is protected" in refusal(territory, asked, Access.write).message


def test_a_root_inside_a_protected_folder_of_another_root_does_not_open_it(world):
    (world.inside / ".git/hooks").mkdir(parents=True)
    territory = territory_of(world.inside, world.inside / ".git")
    assert "is protected" in refusal(territory, f"{world.inside}/.git/hooks/x", Access.write).message
    alone = territory_of(world.inside / ".git")
    assert alone.find("hooks/x", Access.write)
