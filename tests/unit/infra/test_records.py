"""Records behave as the standard library's dataclasses do, and write no method before it is used."""

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, asdict, field, fields, is_dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from interlock.infra import records
from tests.harness.tables import each_row

Held = TypeVar("Held")


def made_by(dataclass) -> dict[str, type]:
    """The same classes, by either maker."""

    @dataclass(frozen=True, slots=True)
    class Point:
        """Where."""

        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list)
        seen: int = field(default=0, compare=False, repr=False)
        origin: ClassVar[str] = "here"

        def moved(self, by: int) -> "Point":
            return replace(self, x=self.x + by)

    @dataclass(frozen=True, slots=True)
    class Deeper(Point):
        z: int = 3

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Named(Point):
        name: str
        size: int = field(init=False, default=7)
        parts: dict[str, int] = field(init=False, default_factory=dict)

    return _classes(locals()) | odd_ones_made_by(dataclass)


def _classes(found: dict[str, Any]) -> dict[str, type]:
    return {name: kind for name, kind in found.items() if isinstance(kind, type)}


def odd_ones_made_by(dataclass) -> dict[str, type]:
    """With something of their own in place of what is made."""

    @dataclass(slots=True)
    class Count:
        number: int = 0
        doubled: int = field(init=False)

        def __post_init__(self) -> None:
            self.doubled = self.number * 2

    @dataclass(frozen=True, slots=True)
    class Clean:
        text: str

        def __post_init__(self) -> None:
            object.__setattr__(self, "text", self.text.strip())

    @dataclass(frozen=True, slots=True, eq=False)
    class Itself:
        number: int

    @dataclass(frozen=True, slots=True)
    class Told:
        number: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Told)

        def __hash__(self) -> int:
            return 5

        def __repr__(self) -> str:
            return "told"

    @dataclass(slots=True)
    class Nothing:
        pass

    @dataclass(frozen=True, slots=True)
    class Box(Generic[Held]):
        held: Held

    return _classes(locals())


OURS, THEIRS = made_by(records.dataclass), made_by(dataclasses.dataclass)
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Point", (1,), {}),
    ("Point", (1, 5, ["a"]), {"seen": 9}),
    ("Point", (), {"x": 4, "tags": ["b"]}),
    ("Deeper", (1, 2, [], 0, 9), {}),
    ("Named", (1,), {"name": "n"}),
    ("Count", (), {}),
    ("Count", (4,), {}),
    ("Clean", (" a ",), {}),
    ("Itself", (1,), {}),
    ("Told", (1,), {}),
    ("Nothing", (), {}),
    ("Box", ({"a"},), {}),
]


@each_row(("name", "given", "named"), CALLS)
def test_an_instance_is_what_the_standard_one_is(name, given, named):
    ours, theirs = OURS[name](*given, **named), THEIRS[name](*given, **named)
    assert repr(ours) == repr(theirs)
    assert asdict(ours) == asdict(theirs)
    assert is_dataclass(ours)
    assert not hasattr(ours, "__dict__")
    assert [each.name for each in fields(ours)] == [each.name for each in fields(theirs)]
    assert OURS[name].__slots__ == THEIRS[name].__slots__
    assert OURS[name].__match_args__ == THEIRS[name].__match_args__
    assert (ours == OURS[name](*given, **named)) is (theirs == THEIRS[name](*given, **named))
    assert ours != theirs
    assert copy.copy(ours) == ours or name == "Itself"
    assert asdict(copy.deepcopy(ours)) == asdict(theirs)


@pytest.mark.parametrize("name", OURS)
def test_its_signature_can_be_looked_at(name):
    ours, theirs = (list(inspect.signature(kind[name]).parameters.values()) for kind in (OURS, THEIRS))
    assert [(each.name, each.kind) for each in ours] == [(each.name, each.kind) for each in theirs]
    is_needed = [each.default is inspect.Parameter.empty for each in theirs]
    assert [each.default is inspect.Parameter.empty for each in ours] == is_needed


@pytest.mark.parametrize(
    ("name", "given", "named"),
    [("Point", (), {}), ("Point", (1, 2, [], 3, 4), {}), ("Point", (1,), {"w": 1}), ("Named", (1,), {})],
)
def test_a_wrong_call_says_what_is_wrong(name, given, named):
    with pytest.raises(TypeError) as theirs:
        THEIRS[name](*given, **named)
    with pytest.raises(TypeError) as ours:
        OURS[name](*given, **named)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("kinds", [OURS, THEIRS])
def test_equality_and_hashes(kinds):
    point, deeper = kinds["Point"], kinds["Deeper"]
    assert point(1, seen=1) == point(1, seen=2)
    assert point(1) != deeper(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(point(1))
    assert hash(point(1, tags=())) == hash(point(1, tags=(), seen=4)) == hash((1, 2, ()))
    assert kinds["Count"].__hash__ is None
    assert kinds["Itself"](1) != kinds["Itself"](1)
    assert (kinds["Told"](1) == kinds["Told"](2), hash(kinds["Told"](1)), repr(kinds["Told"](1))) == (
        True,
        5,
        "told",
    )


@pytest.mark.parametrize("kinds", [OURS, THEIRS])
def test_what_is_frozen_stays_as_it_is(kinds):
    point = kinds["Point"](1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    assert point.moved(4).x == 5
    assert point.origin == "here"
    count = kinds["Count"](1)
    count.number = 3
    assert (count.number, count.doubled) == (3, 2)
    with pytest.raises(AttributeError):
        count.other = 1


@records.dataclass(frozen=True, slots=True)
class Sent:
    number: int
    further: "Sent | None" = None


def test_it_can_be_sent_to_another_process():
    assert pickle.loads(pickle.dumps(Sent(1, Sent(2)))) == Sent(1, Sent(2))  # noqa: S301 - our own


def test_one_that_holds_itself_can_be_shown():
    box = OURS["Box"]([])
    box.held.append(box)
    assert "Box(held=[...])" in repr(box)


def test_no_method_is_written_before_it_is_used():
    kind = made_by(records.dataclass)["Point"]
    waiting = [name for name in ("__init__", "__eq__", "__hash__") if inspect.isfunction(vars(kind)[name])]
    assert waiting == []
    assert kind(1) == kind(1)
    assert inspect.isfunction(vars(kind)["__init__"])
    assert inspect.isfunction(vars(kind)["__eq__"])
    assert not inspect.isfunction(vars(kind)["__hash__"])
    assert kind.__init__.__qualname__.endswith("Point.__init__")


def test_one_without_slots_is_refused():
    with pytest.raises(TypeError, match="must have slots"):
        records.dataclass(frozen=True)
