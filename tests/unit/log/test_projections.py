"""What a projection declares as content is what erased events no longer give its rows."""

import typing
from dataclasses import fields, replace

import pytest

from interlock.log.event import Event
from interlock.log.hash_chain import EventHeader
from interlock.log.projections import Projection
from interlock.wiring.projections import PROJECTIONS

VALUES = {str: "00", int: 1, float: 1.0, bool: False}


def sample(kind: type[Event]) -> Event:
    """An event whose content differs from that of an erased one."""
    hints = typing.get_type_hints(kind)
    return kind(**{member.name: value_of(hints[member.name]) for member in fields(kind)})


def value_of(hint: object) -> object:
    origin = typing.get_origin(hint) or hint
    if origin in VALUES:
        return VALUES[origin]
    if origin is dict:
        return {"a": "b"}
    if origin is list:
        return []
    return next((value_of(each) for each in typing.get_args(hint)), "00")


def lost_columns(projection: Projection) -> set[str]:
    """The columns that differ once an event of one kind is erased, each applied to a new row."""
    header = EventHeader("e1", 1, "s_1", 1, "t_1", "e0", "")
    first = projection.kinds[0]
    row = projection.evolve(None, sample(first), replace(header, kind=first.kind))
    found: set[str] = set()
    for kind in projection.kinds:
        event, at = sample(kind), replace(header, kind=kind.kind)
        erased = replace(event, **dict.fromkeys(kind.erasable))
        before, after = projection.evolve(row, event, at), projection.evolve(row, erased, at)
        if before is not None and after is not None:
            found |= {name for name in before if before[name] != after[name]}
    return found


@pytest.mark.parametrize("projection", list(PROJECTIONS), ids=lambda projection: projection.table)
def test_content_is_declared_exactly(projection):
    declared = projection.content.keys() | set(projection.outlasting)
    assert lost_columns(projection) == declared
