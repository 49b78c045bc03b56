"""The opened folders themselves, and folders made inside them."""

import os
from pathlib import Path

import pytest

from interlock.core.errors import ErrorCode, ToolError
from interlock.sandbox.paths import PathAccess
from tests.unit.sandbox.asked import content_of, refusal
from tests.unit.sandbox.conftest import CANARY, territory_of

pytestmark = pytest.mark.usefixtures("both_ways")


# -- roots --


def test_the_deepest_root_decides(roots):
    inner = roots.inside / "src"
    for order in ((roots.inside, inner), (inner, roots.inside)):
        place = territory_of(*order).find(f"{inner}/a.py")
        assert (place.root, place.relative) == (inner, "a.py")


def test_a_read_only_root_inside_a_writable_one_stays_read_only(roots):
    resolver = territory_of(roots.inside, roots.inside / "src", writable=(roots.inside,))
    assert resolver.find("README.md", PathAccess.write)
    assert "read-only here" in refusal(resolver, "src/a.py", PathAccess.write).message


def test_a_writable_folder_inside_a_read_only_root_is_writable(roots):
    resolver = territory_of(roots.inside, writable=(roots.inside / "src",))
    assert resolver.find("src/new.py", PathAccess.write).root == roots.inside
    assert "read-only here" in refusal(resolver, "README.md", PathAccess.write).message
    assert "read-only here" in refusal(resolver, "src/../srcx", PathAccess.write).message


def test_the_whole_file_system_can_be_a_root(roots):
    resolver = territory_of(Path("/"))
    assert content_of(resolver, str(roots.outside / "secret.txt")) == CANARY
    assert resolver.find("/").parts == ()
    assert resolver.find("..").parts == ()
    assert resolver.find("x").path == Path("/x")
    assert resolver.shown(resolver.find("/etc")) == "etc"


@pytest.mark.parametrize("root", ["link", "./ws/../ws/.", "ws/../link"])
def test_a_root_is_used_in_the_canonical_form_the_settings_gave_it(roots, root):
    """A root that is a link is resolved when Interlock starts; here it would be refused, not followed."""
    roots.link("link", "ws")
    canonical = (roots.top / root).resolve()
    assert content_of(territory_of(canonical), "README.md") == "ok"
    assert content_of(territory_of(canonical), f"{roots.top}/link/README.md") == "ok"
    with pytest.raises(ToolError):
        content_of(territory_of(roots.top / root), "README.md")


def test_a_root_that_became_a_link_is_refused(roots):
    resolver = territory_of(roots.inside)
    place = resolver.find("secret.txt")
    roots.inside.rename(roots.top / "away")
    roots.link("ws", "outside")
    with pytest.raises(ToolError, match="cannot be reached"):
        resolver.open(place, os.O_RDONLY)
    assert refusal(resolver, "secret.txt").error_code is ErrorCode.PATH_DENIED


def test_a_folder_above_the_root_that_became_a_link_is_refused(roots):
    root = roots.inside / "src" / "deep"
    resolver = territory_of(root)
    place = resolver.find("x", PathAccess.write)
    (roots.outside / "deep").mkdir()
    (roots.inside / "src").rename(roots.inside / "moved")
    (roots.inside / "src").symlink_to(roots.outside)
    with pytest.raises(ToolError, match="cannot be reached"), resolver.parent(place, make=True):
        pass
    assert list((roots.outside / "deep").iterdir()) == []


def test_a_root_that_is_gone_is_told(roots):
    place = roots.resolver.find("README.md")
    roots.inside.rename(roots.top / "away")
    with pytest.raises(ToolError, match="cannot be reached: No such file"):
        roots.resolver.open(place, os.O_RDONLY)


def test_a_root_itself_is_not_replaced(roots):
    resolver = territory_of(roots.inside, roots.inside / "src")
    for asked in (".", "src", "../ws", str(roots.inside)):
        place = resolver.find(asked, PathAccess.write, follow=False)
        with pytest.raises(ToolError, match="cannot be changed itself"), resolver.parent(place):
            pass


def test_a_root_is_not_taken_along_with_the_folder_it_lies_in(roots):
    resolver = territory_of(roots.inside, roots.inside / "src/deep")
    place = resolver.find("src", PathAccess.write, follow=False)
    with pytest.raises(ToolError, match="cannot be changed itself"):
        resolver.refuse_protected_below(place, ("deep",))
    resolver.refuse_protected_below(place, ("a.py",))


# -- making folders --


def test_missing_folders_are_made_and_counted(roots):
    place = roots.resolver.find("src/new/er/est/x.txt", PathAccess.write)
    assert roots.resolver.missing_folders(place) == 3
    with roots.resolver.parent(place, make=True) as parent:
        assert (parent.name, parent.made) == ("x.txt", 3)
        assert Path(f"/proc/self/fd/{parent.descriptor}").resolve() == roots.inside / "src/new/er/est"
    assert roots.resolver.missing_folders(place) == 0
    with roots.resolver.parent(place, make=True) as parent:
        assert parent.made == 0


def test_hundreds_of_folders_can_be_made(roots):
    asked = "/".join(["d"] * 400) + "/x"
    place = roots.resolver.find(asked, PathAccess.write)
    with roots.resolver.parent(place, make=True) as parent:
        assert parent.made == 400


def test_without_being_asked_no_folder_is_made(roots):
    place = roots.resolver.find("new/x.txt", PathAccess.write)
    with pytest.raises(FileNotFoundError), roots.resolver.parent(place):
        pass
    assert not (roots.inside / "new").exists()


@pytest.mark.parametrize("target", ["../outside/new", "../outside", "{top}/outside", "src", "loop"])
def test_no_folder_is_made_through_a_link_that_appeared_in_between(roots, target):
    place = roots.resolver.find("loop/x/y.txt", PathAccess.write)
    roots.link("ws/loop", target.format(top=roots.top))
    with pytest.raises(ToolError), roots.resolver.parent(place, make=True):
        pass
    assert sorted(path.name for path in roots.outside.rglob("*")) == ["dir", "s.txt", "secret.txt"]
    assert not (roots.inside / "src/x").exists()


def test_a_file_in_the_way_is_not_a_folder_and_nothing_is_left_behind(roots):
    place = roots.resolver.find("README.md/x/y", PathAccess.write)
    with pytest.raises(NotADirectoryError), roots.resolver.parent(place, make=True):
        pass


def test_folders_made_on_the_way_to_a_failure_are_removed(roots):
    place = roots.resolver.find(f"empty/a/b/{'x' * 256}/c", PathAccess.write)
    with pytest.raises(OSError, match="too long"), roots.resolver.parent(place, make=True):
        pass
    assert list((roots.inside / "empty").iterdir()) == []
