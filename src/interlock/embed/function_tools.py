"""Makes a tool of a function."""

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
    """Make a tool of the function below: `@tool(modes=["chat", "coding"], effect="read")`.

    Its name, its signature and its docstring are what a model is told. It returns a text, something that
    can be written as JSON, or a `ToolResult`, and raises `ToolError` to say why it failed.

    What is left out is closed. A bare `@tool` declares nothing: no mode offers it.

    modes: where it may be used at all: chat_safe, chat, plan, coding.
    effect: what it can do to the world: read, write, exec, special. Only what reads may be repeated after
        a crash.
    switches: the policy switches that turn it off: fs, shell, mcp, memory, image. What does not only read
        and names none is turned off by fs and by shell.
    needs: what must be there for it: roots, sandbox, program:NAME.
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
    """A text would be gone through letter by letter, and no type checker says so."""
    if isinstance(given, str):
        raise TypeError(f"{name} must be a list, not a single text: [{given!r}]")
