"""A file with several names (hard links) is opened only where all of them lie inside."""

import os
from pathlib import Path

import pytest

from interlock.infra.errors import ErrorCode, ToolError
from interlock.sandbox import names
from interlock.sandbox.files import opened_file
from interlock.sandbox.names import OtherNames
from interlock.sandbox.paths import Territory
from tests.unit.sandbox.conftest import territory_of


def is_inside(territory: Territory, path: Path) -> bool:
    with opened_file(territory, territory.find(str(path))) as file:
        return OtherNames(territory).are_inside(file)


def test_a_file_with_one_name_is_inside(world):
    assert is_inside(world.territory, world.inside / "README.md")


def test_a_file_all_of_whose_names_are_opened_is_inside(world):
    for name in (world.inside / "src/deep/second", world.top / "lib/third"):
        os.link(world.inside / "README.md", name)
    assert is_inside(world.territory, world.inside / "README.md")
    assert is_inside(world.territory, world.top / "lib/third")


def test_one_name_outside_is_enough_however_many_are_inside(world):
    for number in range(3):
        os.link(world.outside / "secret.txt", world.inside / f"name-{number}")
    assert not is_inside(world.territory, world.inside / "name-0")
    with (
        opened_file(world.territory, world.territory.find("name-0")) as file,
        pytest.raises(ToolError, match="also a file outside the folders that were opened") as refused,
    ):
        OtherNames(world.territory).refuse_outside(file, "name-0")
    assert refused.value.error_code is ErrorCode.PATH_DENIED


def test_a_name_in_a_root_that_lies_in_another_one_counts_once(world):
    os.link(world.outside / "secret.txt", world.inside / "src/name")
    territory = territory_of(world.inside, world.inside / "src", world.inside / "src/deep")
    assert not is_inside(territory, world.inside / "src/name")


def test_where_there_is_too_much_to_look_through_nothing_is_taken_for_inside(world, monkeypatch):
    os.link(world.inside / "README.md", world.inside / "src/second")
    monkeypatch.setattr(names, "MAX_ENTRIES", 1)
    assert not is_inside(world.territory, world.inside / "README.md")


def test_the_operator_can_open_such_files(world):
    os.link(world.outside / "secret.txt", world.inside / "name")
    assert is_inside(territory_of(world.inside, reads_hard_links=True), world.inside / "name")
