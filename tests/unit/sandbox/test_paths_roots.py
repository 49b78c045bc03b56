"""The opened folders themselves, and folders made inside them."""

import os
from pathlib import Path

import pytest

from interlock.infra.errors import ErrorCode, ToolError
from interlock.sandbox.paths import Access
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
    territory = territory_of(roots.inside, roots.inside / "src", writable=(roots.inside,))
    assert territory.find("README.md", Access.write)
    assert "read-only here" in refusal(territory, "src/a.py", Access.write).message


def test_a_writable_folder_inside_a_read_only_root_is_writable(roots):
    territory = territory_of(roots.inside, writable=(roots.inside / "src",))
    assert territory.find("src/new.py", Access.write).root == roots.inside
    assert "read-only here" in refusal(territory, "README.md", Access.write).message
    assert "read-only here" in refusal(territory, "src/../srcx", Access.write).message


def test_the_whole_file_system_can_be_a_root(roots):
    territory = territory_of(Path("/"))
    assert content_of(territory, str(roots.outside / "secret.txt")) == CANARY
    assert territory.find("/").parts == ()
    assert territory.find("..").parts == ()
    assert territory.find("x").path == Path("/x")
    assert territory.shown(territory.find("/etc")) == "etc"


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
    territory = territory_of(roots.inside)
    place = territory.find("secret.txt")
    roots.inside.rename(roots.top / "away")
    roots.link("ws", "outside")
    with pytest.raises(ToolError, match="cannot be reached"):
        territory.open(place, os.O_RDONLY)
    assert refusal(territory, "secret.txt").error_code is ErrorCode.PATH_DENIED


def test_a_folder_above_the_root_that_became_a_link_is_refused(roots):
    root = roots.inside / "src" / "deep"
    territory = territory_of(root)
    place = territory.find("x", Access.write)
    (roots.outside / "deep").mkdir()
    (roots.inside / "src").rename(roots.inside / "moved")
    (roots.inside / "src").symlink_to(roots.outside)
    with pytest.raises(ToolError, match="cannot be reached"), territory.parent(place, make=True):
        pass
    assert list((roots.outside / "deep").iterdir()) == []


def test_a_root_that_is_gone_is_told(roots):
    place = roots.territory.find("README.md")
    roots.inside.rename(roots.top / "away")
    with pytest.raises(ToolError, match="cannot be reached: No such file"):
        roots.territory.open(place, os.O_RDONLY)


def test_a_root_itself_is_not_replaced(roots):
    territory = territory_of(roots.inside, roots.inside / "src")
    for asked in (".", "src", "../ws", str(roots.inside)):
        place = territory.find(asked, Access.write, follow=False)
        with pytest.raises(ToolError, match="cannot be changed itself"), territory.parent(place):
            pass


def test_a_root_is_not_taken_along_with_the_folder_it_lies_in(roots):
    territory = territory_of(roots.inside, roots.inside / "src/deep")
    place = territory.find("src", Access.write, follow=False)
    with pytest.raises(ToolError, match="cannot be changed itself"):
        territory.refuse_protected_below(place, ("deep",))
    territory.refuse_protected_below(place, ("a.py",))


# -- making folders --


def test_missing_folders_are_made_and_counted(roots):
    place = roots.territory.find("src/new/er/est/x.txt", Access.write)
    assert roots.territory.missing_folders(place) == 3
    with roots.territory.parent(place, make=True) as parent:
        assert (parent.name, parent.made) == ("x.txt", 3)
        assert Path(f"/proc/self/fd/{parent.descriptor}").resolve() == roots.inside / "src/new/er/est"
    assert roots.territory.missing_folders(place) == 0
    with roots.territory.parent(place, make=True) as parent:
        assert parent.made == 0


def test_hundreds_of_folders_can_be_made(roots):
    asked = "/".join(["d"] * 400) + "/x"
    place = roots.territory.find(asked, Access.write)
    with roots.territory.parent(place, make=True) as parent:
        assert parent.made == 400


def test_without_being_asked_no_folder_is_made(roots):
    place = roots.territory.find("new/x.txt", Access.write)
    with pytest.raises(FileNotFoundError), roots.territory.parent(place):
        pass
    assert not (roots.inside / "new").exists()


@pytest.mark.parametrize("target", ["../outside/new", "../outside", "{top}/outside", "src", "loop"])
def test_no_folder_is_made_through_a_link_that_appeared_in_between(roots, target):
    place = roots.territory.find("loop/x/y.txt", Access.write)
    roots.link("ws/loop", target.format(top=roots.top))
    with pytest.raises(ToolError), roots.territory.parent(place, make=True):
        pass
    assert sorted(path.name for path in roots.outside.rglob("*")) == ["dir", "s.txt", "secret.txt"]
    assert not (roots.inside / "src/x").exists()


def test_a_file_in_the_way_is_not_a_folder_and_nothing_is_left_behind(roots):
    place = roots.territory.find("README.md/x/y", Access.write)
    with pytest.raises(NotADirectoryError), roots.territory.parent(place, make=True):
        pass


def test_folders_made_on_the_way_to_a_failure_are_removed(roots):
    place = roots.territory.find(f"empty/a/b/{'x' * 256}/c", Access.write)
    with pytest.raises(OSError, match="too long"), roots.territory.parent(place, make=True):
        pass
    assert list((roots.inside / "empty").iterdir()) == []
