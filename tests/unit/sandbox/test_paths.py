"""Where a path leads, and whether it may be touched (S3-6.1.2, S3-6.1.3, S3-12.2)."""

import errno
import json
import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.infra.errors import ErrorCode, ToolError
from interlock.sandbox.files import look
from interlock.sandbox.paths import Access, Territory, quoted
from interlock.sandbox.profile import SandboxProfile
from tests.unit.sandbox.conftest import CANARY, territory_of

pytestmark = pytest.mark.usefixtures("both_ways")


def content_of(territory: Territory, asked: str) -> str:
    descriptor = territory.open(territory.find(asked), os.O_RDONLY)
    with os.fdopen(descriptor) as stream:
        return stream.read()


def refusal(territory: Territory, asked: str, access: Access = Access.read, **rest) -> ToolError:
    with pytest.raises(ToolError) as caught:
        territory.find(asked, access, **rest)
    return caught.value


# -- what is inside --


@pytest.mark.parametrize(
    ("asked", "relative"),
    [
        ("README.md", "README.md"),
        (".", "."),
        ("./", "."),
        ("src", "src"),
        ("src/", "src"),
        ("src//a.py", "src/a.py"),
        ("./src/./a.py", "src/a.py"),
        ("src/../README.md", "README.md"),
        ("src/deep/../a.py", "src/a.py"),
        ("../ws/README.md", "README.md"),
        ("../../../../../../../..{top}/ws/README.md", "README.md"),
        ("{top}/ws/src/../README.md", "README.md"),
        ("//{top}/ws/README.md", "README.md"),
        ("not/there/yet", "not/there/yet"),
        ("not/there/../yet", "not/yet"),
    ],
)
def test_a_path_that_ends_inside_is_found_in_its_canonical_form(world, asked, relative):
    """S3-6.1.3"""
    place = world.territory.find(asked.format(top=world.top))
    assert (place.root, place.relative) == (world.inside, relative)


def test_a_relative_path_starts_at_the_first_root_wherever_the_process_stands(world, monkeypatch):
    monkeypatch.chdir(world.outside)
    assert world.territory.find("src/a.py").path == world.inside / "src/a.py"
    assert content_of(world.territory, "src/a.py") == "ok"


def test_the_second_root_is_reached_by_its_full_path(world):
    assert content_of(world.territory, f"{world.top}/lib/b.py") == "ok"
    assert content_of(world.territory, "../lib/b.py") == "ok"


@pytest.mark.parametrize(
    "name",
    [
        "...",
        "..data",
        "a..b",
        "%2e%2e",
        "~",
        "$HOME",
        "${HOME}",
        "-rf",
        "--",
        "a b",
        " ",
        "a\nb",
        "a\tb",
        "*",
        "日本.txt",
        "\u202egnp.exe",
        "\ufeffbom",
        "..\\outside\\secret.txt",
        "x" * 255,
        "\udcff\udc80",
        "'\"`",
    ],
)
def test_a_strange_name_is_only_a_name(world, name, monkeypatch):
    """Nothing is expanded, decoded, trimmed or folded."""
    monkeypatch.setenv("HOME", str(world.outside))
    (world.inside / name).mkdir()
    (world.inside / name / "f.txt").write_text("mine")
    assert content_of(world.territory, f"{name}/f.txt") == "mine"
    assert world.territory.find(name).parts == (name,)


@pytest.mark.parametrize(
    "asked", ["~", "~root", "~/x", "$HOME/x", "%2e%2e/outside/secret.txt", "a\\..\\..\\b"]
)
def test_what_is_not_there_is_not_found_by_another_name(world, asked, monkeypatch):
    monkeypatch.setenv("HOME", str(world.inside / "src"))
    with pytest.raises(FileNotFoundError):
        world.territory.open(world.territory.find(asked), os.O_RDONLY)


def test_two_spellings_of_a_letter_are_two_names(world):
    composed, decomposed = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    world.write(f"ws/{composed}", "one")
    with pytest.raises(FileNotFoundError):
        content_of(world.territory, decomposed)
    world.write(f"ws/{decomposed}", "two")
    assert [content_of(world.territory, name) for name in (composed, decomposed)] == ["one", "two"]


# -- what is outside --


@pytest.mark.parametrize(
    "asked",
    [
        "..",
        "../",
        "../outside/secret.txt",
        "../ws-secrets/k.txt",
        "{top}/ws-secrets/k.txt",
        "{top}/ws/../outside/secret.txt",
        "src/../../outside/secret.txt",
        "not-there/../../outside/secret.txt",
        "README.md/../../outside/secret.txt",
        ".//..//outside//secret.txt",
        "../../../../../../../../../../../../../../etc/passwd",
        "/",
        "///etc/passwd",
        "/etc/passwd",
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
        "/proc/thread-self/root/etc/passwd",
        "/dev/stdin",
        "{top}",
        "{top}/outside/not-there",
        "../outside/secret.txt ",
        "../outside/secret.txt\n",
    ],
)
@pytest.mark.parametrize("access", list(Access))
@pytest.mark.parametrize("follow", [True, False])
def test_a_path_that_ends_outside_is_refused(world, asked, access, follow):
    """S3-6.1.3"""
    error = refusal(world.territory, asked.format(top=world.top), access, follow=follow)
    assert error.error_code is ErrorCode.PATH_DENIED
    assert str(world.inside) in error.next_action


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("", "empty"),
        ("\0", "null"),
        ("src/\0../../outside/secret.txt", "null"),
        ("x" * 4097, "longer than 4096"),
        ("é" * 2049, "longer than 4096"),
        ("a\ud800b", "half a character"),
    ],
)
def test_a_malformed_path_is_refused_as_an_argument(world, asked, said):
    error = refusal(world.territory, asked)
    assert error.error_code is ErrorCode.INVALID_ARGS
    assert said in error.message


def test_a_name_that_is_too_long_is_the_systems_error(world):
    with pytest.raises(OSError, match="too long") as caught:
        content_of(world.territory, "x" * 256)
    assert caught.value.errno == errno.ENAMETOOLONG


def test_without_an_opened_folder_everything_is_refused():
    assert refusal(Territory(SandboxProfile()), "/etc/passwd").error_code is ErrorCode.PATH_DENIED


# -- links --


@pytest.mark.parametrize(
    ("target", "asked"),
    [
        ("src/a.py", "link"),
        ("{top}/ws/src/a.py", "link"),
        ("../ws/src/a.py", "link"),
        ("../outside/../ws/src/a.py", "link"),
        ("src", "link/a.py"),
        ("..", "link/ws/src/a.py"),
        ("/", "link{top}/ws/src/a.py"),
        ("src/deep", "link/../a.py"),
    ],
)
def test_a_link_that_ends_inside_works(world, target, asked):
    world.link("ws/link", target.format(top=world.top))
    place = world.territory.find(asked.format(top=world.top), Access.write)
    assert place.relative == "src/a.py"
    assert content_of(world.territory, asked.format(top=world.top)) == "ok"


def test_a_link_may_lead_into_the_other_root_with_that_roots_rights(world):
    world.link("ws/to_lib", "../lib")
    assert content_of(world.territory, "to_lib/b.py") == "ok"
    assert "not written" in refusal(world.territory, "to_lib/b.py", Access.write).message


@pytest.mark.parametrize(
    ("links", "asked"),
    [
        ({"link": "../outside/secret.txt"}, "link"),
        ({"link": "{top}/outside/secret.txt"}, "link"),
        ({"link": "../outside"}, "link"),
        ({"link": "../outside"}, "link/"),
        ({"link": "../outside"}, "link/dir/s.txt"),
        ({"link": "../outside"}, "./link/./secret.txt"),
        ({"link": "../outside"}, "src/../link/secret.txt"),
        ({"link": "../outside"}, "link/../ws-secrets/k.txt"),
        ({"link": "/"}, "link/etc/passwd"),
        ({"link": "/proc/self/root"}, "link/etc/passwd"),
        ({"link": "/proc/self/cwd/.."}, "link/outside/secret.txt"),
        ({"a": "b", "b": "c", "c": "../outside/secret.txt"}, "a"),
        ({"src/deep/link": "../../out", "out": "../outside"}, "src/deep/link/secret.txt"),
        ({"link": "src"}, "link/../../outside/secret.txt"),
        ({"dangling": "../outside/new.txt"}, "dangling"),
        ({"dangling": "../outside/new"}, "dangling/x/y.txt"),
        ({"a": "b", "b": "../outside/new.txt"}, "a"),
    ],
)
@pytest.mark.parametrize("access", list(Access))
def test_a_link_that_ends_outside_is_refused(world, links, asked, access, monkeypatch):
    """S3-6.1.2: also where it dangles, and in the last part of a path that is to be written."""
    monkeypatch.chdir(world.inside)
    for name, target in links.items():
        world.link(f"ws/{name}", target.format(top=world.top))
    error = refusal(world.territory, asked, access)
    assert error.error_code is ErrorCode.PATH_DENIED
    assert CANARY not in f"{error.message}{error.next_action}"


def test_a_link_that_dangles_inside_stands_for_what_could_be_there(world):
    world.link("ws/dangling", "src/not_there.txt")
    assert world.territory.find("dangling", Access.write).relative == "src/not_there.txt"
    with pytest.raises(FileNotFoundError):
        content_of(world.territory, "dangling")


@pytest.mark.parametrize("links", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "a/x"}, {"a": "./src/../a"}])
@pytest.mark.parametrize("asked", ["a", "a/x", "a/../README.md", "a/../../outside/secret.txt"])
def test_a_loop_of_links_is_refused(world, links, asked):
    for name, target in links.items():
        world.link(f"ws/{name}", target)
    assert refusal(world.territory, asked).error_code is ErrorCode.PATH_DENIED


def test_a_chain_is_followed_as_far_as_the_kernel_follows_it(world):
    world.link("ws/l0", "README.md")
    for number in range(1, 2000):
        world.link(f"ws/l{number}", f"l{number - 1}")
    assert content_of(world.territory, "l39") == "ok"
    assert (world.inside / "l39").read_text() == "ok"
    assert "loop" in refusal(world.territory, "l40").message
    assert "loop" in refusal(world.territory, "l1999").message
    with pytest.raises(OSError, match="Too many levels"):
        (world.inside / "l40").read_text()


def test_links_that_multiply_are_not_followed_for_ever(world):
    world.link("ws/m0", ".")
    for number in range(1, 60):
        world.link(f"ws/m{number}", f"m{number - 1}/m{number - 1}")
    assert "loop" in refusal(world.territory, "m59/README.md").message


# -- roots --


def test_the_deepest_root_decides(world):
    inner = world.inside / "src"
    for roots in ((world.inside, inner), (inner, world.inside)):
        place = territory_of(*roots).find(f"{inner}/a.py")
        assert (place.root, place.relative) == (inner, "a.py")


def test_a_read_only_root_inside_a_writable_one_stays_read_only(world):
    territory = territory_of(world.inside, world.inside / "src", writable=(world.inside,))
    assert territory.find("README.md", Access.write)
    assert "not written" in refusal(territory, "src/a.py", Access.write).message


def test_a_writable_folder_inside_a_read_only_root_is_writable(world):
    territory = territory_of(world.inside, writable=(world.inside / "src",))
    assert territory.find("src/new.py", Access.write).root == world.inside
    assert "not written" in refusal(territory, "README.md", Access.write).message
    assert "not written" in refusal(territory, "src/../srcx", Access.write).message


def test_the_whole_file_system_can_be_a_root(world):
    territory = territory_of(Path("/"))
    assert content_of(territory, str(world.outside / "secret.txt")) == CANARY
    assert territory.find("/").parts == ()
    assert territory.find("..").parts == ()
    assert territory.find("x").path == Path("/x")
    assert territory.shown(territory.find("/etc")) == "etc"


@pytest.mark.parametrize("root", ["link", "./ws/../ws/.", "ws/../link"])
def test_a_root_is_used_in_the_canonical_form_the_settings_gave_it(world, root):
    """A root that is a link is resolved when Interlock starts; here it would be refused, not followed."""
    world.link("link", "ws")
    canonical = (world.top / root).resolve()
    assert content_of(territory_of(canonical), "README.md") == "ok"
    assert content_of(territory_of(canonical), f"{world.top}/link/README.md") == "ok"
    with pytest.raises(ToolError):
        content_of(territory_of(world.top / root), "README.md")


def test_a_root_that_became_a_link_is_refused(world):
    territory = territory_of(world.inside)
    place = territory.find("secret.txt")
    world.inside.rename(world.top / "away")
    world.link("ws", "outside")
    with pytest.raises(ToolError, match="cannot be reached"):
        territory.open(place, os.O_RDONLY)
    assert refusal(territory, "secret.txt").error_code is ErrorCode.PATH_DENIED


def test_a_folder_above_the_root_that_became_a_link_is_refused(world):
    root = world.inside / "src" / "deep"
    territory = territory_of(root)
    place = territory.find("x", Access.write)
    (world.outside / "deep").mkdir()
    (world.inside / "src").rename(world.inside / "moved")
    (world.inside / "src").symlink_to(world.outside)
    with pytest.raises(ToolError, match="cannot be reached"), territory.parent(place, make=True):
        pass
    assert list((world.outside / "deep").iterdir()) == []


def test_a_root_that_is_gone_is_told(world):
    place = world.territory.find("README.md")
    world.inside.rename(world.top / "away")
    with pytest.raises(ToolError, match="cannot be reached: No such file"):
        world.territory.open(place, os.O_RDONLY)


def test_a_root_itself_is_not_replaced(world):
    territory = territory_of(world.inside, world.inside / "src")
    for asked in (".", "src", "../ws", str(world.inside)):
        place = territory.find(asked, Access.write, follow=False)
        with pytest.raises(ToolError, match="stays as it is"), territory.parent(place):
            pass


def test_a_root_is_not_taken_along_with_the_folder_it_lies_in(world):
    territory = territory_of(world.inside, world.inside / "src/deep")
    place = territory.find("src", Access.write, follow=False)
    with pytest.raises(ToolError, match="stays as it is"):
        territory.refuse_protected_below(place, ("deep",))
    territory.refuse_protected_below(place, ("a.py",))


# -- the thing itself --


def test_without_following_the_last_part_is_the_link_itself(world):
    link = world.link("ws/src/link", "../../outside/secret.txt")
    place = world.territory.find("src/link", Access.write, follow=False)
    assert place.relative == "src/link"
    with world.territory.parent(place) as parent:
        os.unlink(parent.name, dir_fd=parent.descriptor)
    assert not link.is_symlink()
    assert (world.outside / "secret.txt").read_text() == CANARY


@pytest.mark.parametrize("asked", ["out/secret.txt", "out/..", "out/dir/..", "a/../out/secret.txt"])
def test_without_following_the_parts_above_are_still_resolved(world, asked):
    world.link("ws/out", "../outside")
    assert refusal(world.territory, asked, follow=False).error_code is ErrorCode.PATH_DENIED


def test_a_link_that_is_not_followed_is_not_opened_either(world):
    world.link("ws/link", "README.md")
    with pytest.raises(ToolError, match="loop of links"):
        world.territory.open(world.territory.find("link", follow=False), os.O_RDONLY)


# -- what changes in between --


def test_a_file_that_became_a_link_out_is_refused(world):
    place = world.territory.find("src/a.py")
    (world.inside / "src/a.py").unlink()
    world.link("ws/src/a.py", "../../outside/secret.txt")
    with pytest.raises(ToolError, match="outside the folders"):
        world.territory.open(place, os.O_RDONLY)


def test_a_folder_that_became_a_link_inside_is_read_where_it_leads_now(world):
    place = world.territory.find("src/a.py")
    (world.inside / "src").rename(world.inside / "moved")
    world.link("ws/src", "moved")
    descriptor = world.territory.open(place, os.O_RDONLY)
    with os.fdopen(descriptor) as stream:
        assert stream.read() == "ok"


def test_a_folder_that_became_a_link_inside_is_not_written(world):
    """What was judged, and perhaps read before, is not what would be written."""
    place = world.territory.find("src/a.py", Access.write)
    (world.inside / "src").rename(world.inside / "moved")
    world.link("ws/src", "moved")
    with pytest.raises(ToolError, match="changed while"), world.territory.parent(place):
        pass


def test_the_parent_of_a_place_that_moved_goes_with_its_new_name(world):
    world.write("ws/one/x")
    world.write("ws/two/y")
    world.link("ws/link", "one/x")
    place = world.territory.find("link")
    (world.inside / "link").unlink()
    world.link("ws/link", "two/y")
    (world.inside / "one").rename(world.inside / "away")
    world.link("ws/one", "two")
    with world.territory.parent(place) as parent:
        assert parent.name == "y"
        assert look(parent) is not None


def test_a_path_that_became_a_root_has_no_parent(world):
    place = world.territory.find("src/a.py")
    (world.inside / "src").rename(world.inside / "away")
    world.link("ws/src", "loop")
    world.link("ws/loop", "away")
    (world.inside / "away/a.py").unlink()
    world.link("ws/away/a.py", "..")
    with pytest.raises(ToolError, match="stays as it is"), world.territory.parent(place):
        pass


# -- making folders --


def test_missing_folders_are_made_and_counted(world):
    place = world.territory.find("src/new/er/est/x.txt", Access.write)
    assert world.territory.missing_folders(place) == 3
    with world.territory.parent(place, make=True) as parent:
        assert (parent.name, parent.made) == ("x.txt", 3)
        assert Path(f"/proc/self/fd/{parent.descriptor}").resolve() == world.inside / "src/new/er/est"
    assert world.territory.missing_folders(place) == 0
    with world.territory.parent(place, make=True) as parent:
        assert parent.made == 0


def test_hundreds_of_folders_can_be_made(world):
    asked = "/".join(["d"] * 400) + "/x"
    place = world.territory.find(asked, Access.write)
    with world.territory.parent(place, make=True) as parent:
        assert parent.made == 400


def test_without_being_asked_no_folder_is_made(world):
    place = world.territory.find("new/x.txt", Access.write)
    with pytest.raises(FileNotFoundError), world.territory.parent(place):
        pass
    assert not (world.inside / "new").exists()


@pytest.mark.parametrize("target", ["../outside/new", "../outside", "{top}/outside", "src", "loop"])
def test_no_folder_is_made_through_a_link_that_appeared_in_between(world, target):
    place = world.territory.find("loop/x/y.txt", Access.write)
    world.link("ws/loop", target.format(top=world.top))
    with pytest.raises(ToolError), world.territory.parent(place, make=True):
        pass
    assert sorted(path.name for path in world.outside.rglob("*")) == ["dir", "s.txt", "secret.txt"]
    assert not (world.inside / "src/x").exists()


def test_a_file_in_the_way_is_not_a_folder_and_nothing_is_left_behind(world):
    place = world.territory.find("README.md/x/y", Access.write)
    with pytest.raises(NotADirectoryError), world.territory.parent(place, make=True):
        pass


def test_folders_made_on_the_way_to_a_failure_are_removed(world):
    place = world.territory.find(f"empty/a/b/{'x' * 256}/c", Access.write)
    with pytest.raises(OSError, match="too long"), world.territory.parent(place, make=True):
        pass
    assert list((world.inside / "empty").iterdir()) == []


# -- protected names --


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


# -- how a path is shown --


def test_a_path_is_shown_as_it_can_be_asked_for_again(world):
    territory = world.territory
    assert territory.shown(territory.find("src")) == "src"
    assert territory.shown(territory.find(".")) == "."
    assert territory.shown(territory.find("src"), ("a.py",)) == "src/a.py"
    assert territory.shown(territory.find("../lib/b.py")) == f"{world.top}/lib/b.py"


@given(
    name=st.text(
        st.one_of(st.characters(codec="utf-8"), st.integers(0xDC80, 0xDCFF).map(chr)),
        min_size=1,
        max_size=40,
    ).filter(lambda text: not set(text) & {"/", "\0"} and text not in {".", ".."})
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_name_is_shown_on_one_line_and_found_again(world, name):
    place = world.territory.find(f"src/{name}")
    shown = world.territory.shown(place)
    assert shown.isprintable()
    again = world.territory.find(json.loads(shown) if shown.startswith('"') else shown)
    assert again.path == place.path


def test_a_name_that_is_not_printable_is_quoted_as_json():
    assert quoted("a\nb\udcff") == '"a\\nb\\udcff"'


# -- against the system's own answer --

PARTS = st.sampled_from(["a", "b", "d", "d/a", "l1", "l2", "l3", "..", ".", "", "missing", "out"])


@given(
    targets=st.lists(st.lists(PARTS, min_size=1, max_size=4).map("/".join), min_size=3, max_size=3),
    asked=st.lists(PARTS, min_size=1, max_size=5).map("/".join).filter(bool),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_opened_is_what_the_kernel_opens_or_nothing(world, targets, asked):
    """For any few links and any path of them: the same file as the kernel's, and never one outside."""
    with_links = world.inside / "any"
    with_links.mkdir(exist_ok=True)
    for name in ("a", "b"):
        (with_links / name).write_text(name)
    (with_links / "d").mkdir(exist_ok=True)
    (with_links / "d" / "a").write_text("da")
    links = {"l1": targets[0], "l2": targets[1], "d/l3": targets[2], "out": str(world.outside)}
    for name, target in links.items():
        (with_links / name).unlink(missing_ok=True)
        (with_links / name).symlink_to(target or ".")
    try:
        descriptor = world.territory.open(world.territory.find(f"any/{asked}"), os.O_PATH)
    except (ToolError, OSError):
        return
    try:
        opened = os.fstat(descriptor)
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
    finally:
        os.close(descriptor)
    assert path == str(world.inside) or path.startswith(f"{world.inside}/")
    try:
        kernels = os.stat(f"{world.inside}/any/{asked}")  # noqa: PTH116 - a Path would tidy it up
    except OSError:
        # `..`, `.` or a slash behind a file, or behind nothing, is passed over here; the kernel minds.
        return
    assert (opened.st_dev, opened.st_ino) == (kernels.st_dev, kernels.st_ino)
