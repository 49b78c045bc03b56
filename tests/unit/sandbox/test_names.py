"""A file with several names (hard links) is opened only where all of them lie inside."""

import os
from pathlib import Path

import pytest

from interlock.core.errors import ErrorCode, ToolError
from interlock.sandbox import hard_link_check
from interlock.sandbox.file_io import open_file
from interlock.sandbox.hard_link_check import HardLinkCheck
from interlock.sandbox.paths import PathResolver
from tests.unit.sandbox.conftest import territory_of


def is_inside(resolver: PathResolver, path: Path) -> bool:
    with open_file(resolver, resolver.find(str(path))) as file:
        return HardLinkCheck(resolver).all_inside(file)


def test_a_file_with_one_name_is_inside(roots):
    assert is_inside(roots.resolver, roots.inside / "README.md")


def test_a_file_all_of_whose_names_are_opened_is_inside(roots):
    for name in (roots.inside / "src/deep/second", roots.top / "lib/third"):
        os.link(roots.inside / "README.md", name)
    assert is_inside(roots.resolver, roots.inside / "README.md")
    assert is_inside(roots.resolver, roots.top / "lib/third")


def test_one_name_outside_is_enough_however_many_are_inside(roots):
    for number in range(3):
        os.link(roots.outside / "secret.txt", roots.inside / f"name-{number}")
    assert not is_inside(roots.resolver, roots.inside / "name-0")
    with (
        open_file(roots.resolver, roots.resolver.find("name-0")) as file,
        pytest.raises(
            ToolError, match="a hard link to a file that may be outside the opened folders"
        ) as refused,
    ):
        HardLinkCheck(roots.resolver).refuse_outside(file, "name-0")
    assert refused.value.error_code is ErrorCode.PATH_DENIED


def test_a_name_in_a_root_that_lies_in_another_one_counts_once(roots):
    os.link(roots.outside / "secret.txt", roots.inside / "src/name")
    resolver = territory_of(roots.inside, roots.inside / "src", roots.inside / "src/deep")
    assert not is_inside(resolver, roots.inside / "src/name")


def test_where_there_is_too_much_to_look_through_nothing_is_taken_for_inside(roots, monkeypatch):
    os.link(roots.inside / "README.md", roots.inside / "src/second")
    monkeypatch.setattr(hard_link_check, "MAX_ENTRIES", 1)
    assert not is_inside(roots.resolver, roots.inside / "README.md")


def test_the_operator_can_open_such_files(roots):
    os.link(roots.outside / "secret.txt", roots.inside / "name")
    assert is_inside(territory_of(roots.inside, reads_hard_links=True), roots.inside / "name")
