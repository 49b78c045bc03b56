"""Where a link leads, also one that appears in between (S3-6.1.2)."""

import os

import pytest

from interlock.infra.errors import ErrorCode, ToolError
from interlock.sandbox.files import look
from interlock.sandbox.paths import Access
from tests.unit.sandbox.asked import content_of, refusal
from tests.unit.sandbox.conftest import CANARY

pytestmark = pytest.mark.usefixtures("both_ways")


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
