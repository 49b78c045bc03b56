"""Makes a tool of a function."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

from interlock.tools.base import Effect, PolicySwitch
from interlock.tools.function import FunctionTool

Kind = Literal["read", "write", "exec", "special"]


def tool(
    *,
    modes: Iterable[str],
    effect: Kind,
    switches: Iterable[str] = (),
    needs: Iterable[str] = (),
) -> Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of the function below: `@tool(modes=["chat", "coding"], effect="read")`.

    Its name, its signature and its docstring are what a model is told. It returns a text, something that
    can be written as JSON, or a `ToolResult`, and raises `ToolError` to say why it failed.

    modes: where it may be used at all: chat_safe, chat, plan, coding.
    effect: what it can do to the world. Only what reads may be repeated after a crash.
    switches: the policy switches that turn it off: fs, shell, mcp, memory, image. Whatever does not only
        read must name one.
    needs: what must be there for it: roots, sandbox, program:NAME.
    """

    def made(function: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(
            function,
            modes=modes,
            effect=Effect(effect),
            switches=[PolicySwitch(name) for name in switches],
            needs=needs,
        )

    return made
