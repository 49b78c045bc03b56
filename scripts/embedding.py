"""docs/reference/embed.md: what `interlock.embed` offers, from its own signatures and words."""

import inspect
import re
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from interlock import embed


def embed_parts() -> list[str]:
    return [_part(name, getattr(embed, name)) for name in embed.__all__]


def _part(name: str, thing: Any) -> str:
    words = [f"## {name}", *_signature(name, thing), *_words(thing)]
    if isinstance(thing, type):
        words += _members(thing) if issubclass(thing, Enum) else _methods(thing)
    return "\n\n".join(words)


def _signature(name: str, thing: Any) -> list[str]:
    if isinstance(thing, type):
        base = thing.__mro__[1].__name__
        return [] if base == "object" else [f"A kind of `{base}`."]
    return [f"```python\n{_call(name, thing)}\n```"]


def _call(name: str, function: Any) -> str:
    """As it is called: without the names of modules, which nobody types."""
    text = f"{name}{inspect.signature(function)}"
    text = re.sub(r"(?:[a-z_]\w*\.)+([A-Z]\w*)", r"\1", text)
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    return text.replace("(self, ", "(").replace("(self)", "()")


def _words(thing: Any) -> list[str]:
    text = inspect.cleandoc(thing.__doc__ or "")
    # A dataclass without words of its own is told by its signature.
    name = getattr(thing, "__name__", "")
    return [] if not text or (name and text.startswith(f"{name}(")) else [text]


def _members(thing: type[Enum]) -> list[str]:
    return ["One of " + ", ".join(f"`{member.name}`" for member in thing) + "."]


def _methods(thing: type) -> list[str]:
    found = []
    if is_dataclass(thing):
        found.append("Has " + ", ".join(f"`{each.name}`" for each in fields(thing)) + ".")
    for name, member in vars(thing).items():
        if name.startswith("_"):
            continue
        if inspect.isfunction(member):
            is_awaited = "await " if inspect.iscoroutinefunction(member) else ""
            found.append(
                "\n\n".join([f"```python\n{is_awaited}{_call(f'.{name}', member)}\n```", *_words(member)])
            )
        elif isinstance(member, property):
            found.append(": ".join([f"`.{name}`", *_words(member)]).replace("\n", " "))
    return found
