"""Where a link leads, also one that appears in between (S3-6.1.2)."""

import os

import pytest

from interlock.core.errors import ErrorCode, ToolError
from interlock.sandbox.file_io import lstat_entry
from interlock.sandbox.paths import PathAccess
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
def test_a_link_that_ends_inside_works(roots, target, asked):
    roots.link("ws/link", target.format(top=roots.top))
    place = roots.resolver.find(asked.format(top=roots.top), PathAccess.write)
    assert place.relative == "src/a.py"
    assert content_of(roots.resolver, asked.format(top=roots.top)) == "ok"


def test_a_link_may_lead_into_the_other_root_with_that_roots_rights(roots):
    roots.link("ws/to_lib", "../lib")
    assert content_of(roots.resolver, "to_lib/b.py") == "ok"
    assert "read-only here" in refusal(roots.resolver, "to_lib/b.py", PathAccess.write).message


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
@pytest.mark.parametrize("access", list(PathAccess))
def test_a_link_that_ends_outside_is_refused(roots, links, asked, access, monkeypatch):
    """S3-6.1.2: also where it dangles, and in the last part of a path that is to be written."""
    monkeypatch.chdir(roots.inside)
    for name, target in links.items():
        roots.link(f"ws/{name}", target.format(top=roots.top))
    error = refusal(roots.resolver, asked, access)
    assert error.error_code is ErrorCode.PATH_DENIED
    assert CANARY not in f"{error.message}{error.next_action}"


def test_a_link_that_dangles_inside_stands_for_what_could_be_there(roots):
    roots.link("ws/dangling", "src/not_there.txt")
    assert roots.resolver.find("dangling", PathAccess.write).relative == "src/not_there.txt"
    with pytest.raises(FileNotFoundError):
        content_of(roots.resolver, "dangling")


@pytest.mark.parametrize("links", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "a/x"}, {"a": "./src/../a"}])
@pytest.mark.parametrize("asked", ["a", "a/x", "a/../README.md", "a/../../outside/secret.txt"])
def test_a_loop_of_links_is_refused(roots, links, asked):
    for name, target in links.items():
        roots.link(f"ws/{name}", target)
    assert refusal(roots.resolver, asked).error_code is ErrorCode.PATH_DENIED


def test_a_chain_is_followed_as_far_as_the_kernel_follows_it(roots):
    roots.link("ws/l0", "README.md")
    for number in range(1, 2000):
        roots.link(f"ws/l{number}", f"l{number - 1}")
    assert content_of(roots.resolver, "l39") == "ok"
    assert (roots.inside / "l39").read_text() == "ok"
    assert "loop" in refusal(roots.resolver, "l40").message
    assert "loop" in refusal(roots.resolver, "l1999").message
    with pytest.raises(OSError, match="Too many levels"):
        (roots.inside / "l40").read_text()


def test_links_that_multiply_are_not_followed_for_ever(roots):
    roots.link("ws/m0", ".")
    for number in range(1, 60):
        roots.link(f"ws/m{number}", f"m{number - 1}/m{number - 1}")
    assert "loop" in refusal(roots.resolver, "m59/README.md").message


# -- the thing itself --


def test_without_following_the_last_part_is_the_link_itself(roots):
    link = roots.link("ws/src/link", "../../outside/secret.txt")
    place = roots.resolver.find("src/link", PathAccess.write, follow=False)
    assert place.relative == "src/link"
    with roots.resolver.parent(place) as parent:
        os.unlink(parent.name, dir_fd=parent.descriptor)
    assert not link.is_symlink()
    assert (roots.outside / "secret.txt").read_text() == CANARY


@pytest.mark.parametrize("asked", ["out/secret.txt", "out/..", "out/dir/..", "a/../out/secret.txt"])
def test_without_following_the_parts_above_are_still_resolved(roots, asked):
    roots.link("ws/out", "../outside")
    assert refusal(roots.resolver, asked, follow=False).error_code is ErrorCode.PATH_DENIED


def test_a_link_that_is_not_followed_is_not_opened_either(roots):
    roots.link("ws/link", "README.md")
    with pytest.raises(ToolError, match="symlink loop"):
        roots.resolver.open(roots.resolver.find("link", follow=False), os.O_RDONLY)


# -- what changes in between --


def test_a_file_that_became_a_link_out_is_refused(roots):
    place = roots.resolver.find("src/a.py")
    (roots.inside / "src/a.py").unlink()
    roots.link("ws/src/a.py", "../../outside/secret.txt")
    with pytest.raises(ToolError, match="outside the opened folders"):
        roots.resolver.open(place, os.O_RDONLY)


def test_a_folder_that_became_a_link_inside_is_read_where_it_leads_now(roots):
    place = roots.resolver.find("src/a.py")
    (roots.inside / "src").rename(roots.inside / "moved")
    roots.link("ws/src", "moved")
    descriptor = roots.resolver.open(place, os.O_RDONLY)
    with os.fdopen(descriptor) as stream:
        assert stream.read() == "ok"


def test_a_folder_that_became_a_link_inside_is_not_written(roots):
    """What was judged, and perhaps read before, is not what would be written."""
    place = roots.resolver.find("src/a.py", PathAccess.write)
    (roots.inside / "src").rename(roots.inside / "moved")
    roots.link("ws/src", "moved")
    with pytest.raises(ToolError, match="changed while"), roots.resolver.parent(place):
        pass


def test_the_parent_of_a_place_that_moved_goes_with_its_new_name(roots):
    roots.write("ws/one/x")
    roots.write("ws/two/y")
    roots.link("ws/link", "one/x")
    place = roots.resolver.find("link")
    (roots.inside / "link").unlink()
    roots.link("ws/link", "two/y")
    (roots.inside / "one").rename(roots.inside / "away")
    roots.link("ws/one", "two")
    with roots.resolver.parent(place) as parent:
        assert parent.name == "y"
        assert lstat_entry(parent) is not None


def test_a_path_that_became_a_root_has_no_parent(roots):
    place = roots.resolver.find("src/a.py")
    (roots.inside / "src").rename(roots.inside / "away")
    roots.link("ws/src", "loop")
    roots.link("ws/loop", "away")
    (roots.inside / "away/a.py").unlink()
    roots.link("ws/away/a.py", "..")
    with pytest.raises(ToolError, match="cannot be changed itself"), roots.resolver.parent(place):
        pass
