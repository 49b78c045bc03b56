"""Classes of plain data, as `dataclasses` makes them, whose methods are written when they are first used.

`dataclasses` writes and compiles half a dozen methods for every class when its module is loaded. Interlock
has hundreds of such classes, and a command uses a few of them: that was a quarter of its start.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # To whoever reads types it is the one they know.
    from dataclasses import dataclass

__all__ = ["dataclass"]

Method = Callable[..., Any]


def _dataclass(
    *, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True
) -> Callable[[type], type]:
    """As the standard one with these options. What is made of such a class is made here as well.

    `slots` must be true: a class without them gains nothing.
    """
    if not slots:
        raise TypeError("a record must have slots; use dataclasses.dataclass for anything else")

    def make(cls: type) -> type:
        doc = cls.__doc__
        # Without one the standard library writes down the signature, and that takes a while.
        cls.__doc__ = doc or cls.__name__
        described: type = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
        members = _members(described, frozen=frozen, eq=eq) | {"__doc__": doc}
        made = type(cls)(cls.__name__, cls.__bases__, members)
        made.__qualname__ = cls.__qualname__
        return made

    return make


if not TYPE_CHECKING:
    dataclass = _dataclass


class _Later:
    """A method that is written when it is first asked for, and stands in its own place from then on."""

    def __init__(self, write: Callable[[type], Method]) -> None:
        self._write = write

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type | None = None) -> Method:
        method: Any = self._write(self._owner)
        method.__qualname__ = f"{self._owner.__qualname__}.{self._name}"
        method.__module__ = self._owner.__module__
        setattr(self._owner, self._name, method)
        bound: Method = method.__get__(instance, owner)
        return bound


def _members(described: type, *, frozen: bool, eq: bool) -> dict[str, Any]:
    """What the class is made of: its own, with slots instead of defaults, and the methods it has not."""
    names = [field.name for field in fields(described)]
    inherited = {name for base in described.__mro__[1:] for name in _slots_of(base)}
    left_out = {*names, "__dict__", "__weakref__"}
    members = {name: value for name, value in vars(described).items() if name not in left_out}
    members["__slots__"] = tuple(name for name in names if name not in inherited)
    members.setdefault("__init__", _Later(_init_of_frozen if frozen else _init_of))
    members.setdefault("__repr__", _repr)
    if eq and "__eq__" not in members:
        members["__eq__"] = _Later(_eq_of)
        # A class that says how it compares is given "no hash" by Python; one that does not, here.
        members.setdefault("__hash__", _Later(_hash_of) if frozen else None)
    if frozen:
        members |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
        members |= {"__getstate__": _state, "__setstate__": _set_state}
    return members


def _slots_of(base: type) -> tuple[str, ...]:
    slots = vars(base).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


# -- methods that are written for a class ------------------------------------------------------------


def _init_of(cls: type) -> Method:
    return _init(cls, lambda _known, field, value: f"{_SELF}.{field.name} = {value}")


def _init_of_frozen(cls: type) -> Method:
    """Past `__setattr__`, which refuses: by the slot itself."""

    def set_slot(known: dict[str, Any], field: Field[Any], value: str) -> str:
        known[f"_set_{field.name}"] = getattr(cls, field.name).__set__
        return f"_set_{field.name}({_SELF}, {value})"

    return _init(cls, set_slot)


# No field has this name.
_SELF = "_the_record"


def _init(cls: type, assignment: Callable[[dict[str, Any], Field[Any], str], str]) -> Method:
    known: dict[str, Any] = {"_MISSING": MISSING}
    given: dict[bool, list[str]] = {False: [], True: []}
    body = []
    for field in fields(cls):
        value = field.name
        if field.default is not MISSING:
            known[f"_default_{field.name}"] = field.default
            parameter = f"{field.name}=_default_{field.name}"
            value = value if field.init else f"_default_{field.name}"
        elif field.default_factory is not MISSING:
            known[f"_make_{field.name}"] = field.default_factory
            parameter, fresh = f"{field.name}=_MISSING", f"_make_{field.name}()"
            value = f"{fresh} if {value} is _MISSING else {value}" if field.init else fresh
        elif field.init:
            parameter = field.name
        else:
            continue
        if field.init:
            given[bool(field.kw_only)].append(parameter)
        body.append(assignment(known, field, value))
    if hasattr(cls, "__post_init__"):
        body.append(f"{_SELF}.__post_init__()")
    parameters = [_SELF, *given[False], *(["*", *given[True]] if given[True] else [])]
    return _written(f"__init__({', '.join(parameters)})", body or ["pass"], known)


def _eq_of(cls: type) -> Method:
    ours, theirs = (_compared(cls, of) for of in ("self", "other"))
    body = ["if other.__class__ is not self.__class__: return NotImplemented", f"return {ours} == {theirs}"]
    return _written("__eq__(self, other)", body, {})


def _hash_of(cls: type) -> Method:
    return _written("__hash__(self)", [f"return hash({_compared(cls, 'self')})"], {})


def _compared(cls: type, of: str) -> str:
    return "(" + "".join(f"{of}.{field.name}," for field in fields(cls) if field.compare) + ")"


def _written(head: str, body: list[str], known: dict[str, Any]) -> Method:
    exec("\n    ".join([f"def {head}:", *body]), known)  # noqa: S102 - names of fields, and nothing else
    method: Method = known[head.partition("(")[0]]
    return method


# -- methods that all share --------------------------------------------------------------------------


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse_set(_self: object, name: str, _value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(_self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
