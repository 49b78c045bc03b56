"""A Python function as a tool: its signature is the schema, its docstring the description."""

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any, get_type_hints

import orjson
from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from interlock.config.modes import ToolMode, parse_mode
from interlock.tools.arguments import ToolArguments, UntitledSchema
from interlock.tools.result import ToolResult
from interlock.tools.threads import run_in_thread, run_in_thread_abandonable
from interlock.tools.tool import (
    REPEATABLE,
    Effect,
    ExternalCode,
    PolicySwitch,
    ToolContext,
    ToolGroup,
    TypedTool,
)

# Parameters that cannot be passed by name.
_NAMELESS = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
)


class _FunctionArguments(ToolArguments):
    """The parameters of a function, each a field under its own name as an alias.

    Defaults and null are shown to models: the function may mean something by them.
    """

    schema_generator = UntitledSchema


class FunctionTool(TypedTool):
    """A coroutine function runs on the event loop, any other function in a thread."""

    group = ToolGroup.world

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
        self._modes = frozenset(parse_mode(name) for name in modes)
        self._effect, self._switches, self._needs = effect, frozenset(switches), frozenset(needs)
        parameters = inspect.signature(function).parameters.values()
        if any(parameter.kind in _NAMELESS for parameter in parameters):
            raise TypeError(f"{function.__name__} must name its parameters: the model sees each of them")
        self.arguments = _model_of(function)

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def description(self) -> str:
        return self._description

    @property
    def allowed_modes(self) -> frozenset[ToolMode]:
        return self._modes

    @property
    def effect(self) -> Effect:
        return self._effect

    @property
    def switches(self) -> frozenset[PolicySwitch]:
        return self._switches

    @property
    def needs(self) -> frozenset[str]:
        return self._needs

    @property
    def external(self) -> ExternalCode:
        return ExternalCode(
            undeclared_hint="No mode offers it: its author must name modes in its definition, such as "
            f'@tool(modes=["chat", "coding"], effect="read") above {self.name}. Continue without it.'
        )

    async def execute(self, prepared: ToolArguments, context: ToolContext) -> ToolResult:
        fields = type(prepared).model_fields
        given = {str(field.alias): getattr(prepared, name) for name, field in fields.items()}

        def work() -> Any:
            if self._effect not in REPEATABLE:
                context.cancel.begin_effect()
            return self.function(**given)

        if inspect.iscoroutinefunction(self.function):
            return _result(await work())
        beside = run_in_thread_abandonable if self._effect in REPEATABLE else run_in_thread
        return _result(await beside(context.cancel, work))


def _model_of(function: Callable[..., Any]) -> type[ToolArguments]:
    types = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    # Numbered, since a parameter may have a name that a model does not allow.
    for number, parameter in enumerate(inspect.signature(function).parameters.values()):
        kind, default = types.get(parameter.name, Any), parameter.default
        if isinstance(default, FieldInfo):
            kind, default = Annotated[kind, default], default.default
        elif default is parameter.empty:
            default = ...
        fields[f"argument_{number}"] = (kind, Field(default, alias=parameter.name))
    return create_model(function.__name__, __base__=_FunctionArguments, **fields)


def _result(value: Any) -> ToolResult:
    if isinstance(value, ToolResult):
        return value
    if value is None or isinstance(value, str):
        return ToolResult(stdout=value or "")
    return ToolResult(stdout=orjson.dumps(value).decode())
