"""The `tool` decorator: makes a tool of a function."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, overload

from interlock.tools.function_tool import FunctionTool
from interlock.tools.tool import Effect, PolicySwitch

EffectName = Literal["read", "write", "exec", "special"]


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    *,
    modes: Iterable[str] = (),
    effect: EffectName = "exec",
    switches: Iterable[str] = (),
    needs: Iterable[str] = (),
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    modes: Iterable[str] = (),
    effect: EffectName = "exec",
    switches: Iterable[str] = (),
    needs: Iterable[str] = (),
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function: `@tool(modes=["chat", "coding"], effect="read")`.

    A model sees its name, its signature and its docstring. It returns a text, a value that can be encoded
    as JSON, or a `ToolResult`, and raises `ToolError` to say why it failed.

    Everything omitted is closed. A bare `@tool` declares nothing: no mode offers it.

    modes: the modes that may offer it: chat_safe, chat, plan, coding.
    effect: its effect on the world: read, write, exec, special. Only a read may be repeated after
        a crash.
    switches: the policy switches that turn it off: fs, shell, mcp, memory, image. A tool that does not
        only read and names none is turned off by fs and by shell.
    needs: what it requires: roots, sandbox, program:NAME.
    """

    for name, given in (("modes", modes), ("switches", switches), ("needs", needs)):
        reject_single_string(name, given)

    def made(function: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(
            function,
            modes=modes,
            effect=Effect(effect),
            switches=[PolicySwitch(name) for name in switches],
            needs=needs,
        )

    return made if function is None else made(function)


def reject_single_string(name: str, given: object) -> None:
    """Refuse a text, which would be iterated letter by letter; no type checker reports that."""
    if isinstance(given, str):
        raise TypeError(f"{name} must be a list, not a single text: [{given!r}]")
