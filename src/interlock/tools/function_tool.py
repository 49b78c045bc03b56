"""A Python function as a tool: its signature is the schema, its docstring the description."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import orjson
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ArgsKwargs

from interlock.config.modes import ToolMode, parse_mode
from interlock.core.errors import ErrorCode, ToolError
from interlock.tools.result import ToolResult
from interlock.tools.threads import run_in_thread, run_in_thread_abandonable
from interlock.tools.tool import REPEATABLE, BaseTool, Effect, PolicySwitch, ToolContext, ToolGroup

# Parameters that cannot be passed by name.
_NAMELESS = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
)


class FunctionTool(BaseTool):
    """A coroutine function runs on the event loop, any other function in a thread."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        modes: Iterable[str],
        effect: Effect,
        switches: Iterable[PolicySwitch],
        needs: Iterable[str],
    ) -> None:
        self.function = function
        self._description = (inspect.getdoc(function) or "").strip()
        if not self._description:
            raise TypeError(
                f"{function.__name__} needs a docstring: it is the tool's description for the model"
            )
        self._signature = inspect.signature(function)
        if any(parameter.kind in _NAMELESS for parameter in self._signature.parameters.values()):
            raise TypeError(f"{function.__name__} must name its parameters: the model sees each of them")
        self._modes = frozenset(parse_mode(name) for name in modes)
        self._effect, self._switches, self._needs = effect, frozenset(switches), frozenset(needs)
        # Pydantic accepts functions as types, which its annotations do not say.
        self._arguments: TypeAdapter[Any] = TypeAdapter(cast("Any", self._bound_call(function)))
        self._parameters = _without_titles(self._arguments.json_schema())

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def runs_external_code(self) -> bool:
        return True

    @property
    def description(self) -> str:
        return self._description

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self._parameters

    @property
    def group(self) -> ToolGroup:
        return ToolGroup.world

    @property
    def allowed_modes(self) -> frozenset[ToolMode]:
        return self._modes

    @property
    def mode_denied_hint(self) -> str:
        return (
            "No mode offers it: its author must name modes in its definition, such as "
            f'@tool(modes=["chat", "coding"], effect="read") above {self.name}. Continue '
            "without it."
        )

    @property
    def effect(self) -> Effect:
        return self._effect

    @property
    def switches(self) -> frozenset[PolicySwitch]:
        return self._switches

    @property
    def needs(self) -> frozenset[str]:
        return self._needs

    async def prepare(self, arguments: Mapping[str, Any], context: ToolContext) -> inspect.BoundArguments:  # noqa: ARG002
        """Convert the arguments to the types of the signature; nothing is called yet."""
        try:
            bound: inspect.BoundArguments = self._arguments.validate_python(ArgsKwargs((), dict(arguments)))
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(step) for step in fault["loc"]) or "arguments"
            raise ToolError(
                ErrorCode.INVALID_ARGS,
                f"{place}: {fault['msg']}",
                "Correct the arguments and call it again.",
            ) from None
        return bound

    async def execute(self, prepared: inspect.BoundArguments, context: ToolContext) -> ToolResult:
        def work() -> Any:
            if self._effect not in REPEATABLE:
                context.cancel.begin_effect()
            return self.function(*prepared.args, **prepared.kwargs)

        if inspect.iscoroutinefunction(self.function):
            return _result(await work())
        beside = run_in_thread_abandonable if self._effect in REPEATABLE else run_in_thread
        return _result(await beside(context.cancel, work))

    def _bound_call(self, function: Callable[..., Any]) -> Callable[..., inspect.BoundArguments]:
        """A function with the same signature that only binds the arguments."""

        @functools.wraps(function)
        def bind(*args: Any, **kwargs: Any) -> inspect.BoundArguments:
            return self._signature.bind(*args, **kwargs)

        return bind


def _result(value: Any) -> ToolResult:
    if isinstance(value, ToolResult):
        return value
    if value is None or isinstance(value, str):
        return ToolResult(stdout=value or "")
    return ToolResult(stdout=orjson.dumps(value).decode())


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove Pydantic's titles, which only repeat the names."""
    properties = schema.get("properties", {})
    named = {
        name: {key: value for key, value in part.items() if key != "title"}
        for name, part in properties.items()
    }
    return {key: value for key, value in schema.items() if key != "title"} | {"properties": named}
