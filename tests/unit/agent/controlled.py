"""A clock that moves when told to, and results as tools give them."""

from decimal import Decimal

import orjson

from interlock.agent.budget import FREE, Price, PriceTable
from interlock.agent.limit_tracker import LimitTracker, PriorUsage
from interlock.config.limits import TaskLimitSettings
from interlock.core.errors import ErrorClass, ErrorCode
from interlock.tools.result import ToolFailure, ToolResult
from tests.harness.task_limits import task_limits


class Clock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def control(limits: TaskLimitSettings | None = None, clock: Clock | None = None, **more) -> LimitTracker:
    given = {"model": "m", "prices": PriceTable({}), "used": PriorUsage(), **more}
    return LimitTracker(limits or task_limits(), clock=clock or Clock(), **given)


def content_of(result: ToolResult) -> str:
    """The tool message of a result."""
    return orjson.dumps(result.as_dict()).decode()


def ended(task: LimitTracker, tool_name: str, arguments: str, result: ToolResult, **more):
    return task.call_ended(tool_name, arguments, content_of(result), result.failure, **more)


def failed(
    code: ErrorCode, tool: str = "write_file", message: str = "", error_class: ErrorClass | None = None
) -> ToolResult:
    failure = ToolFailure(
        error_code=code,
        error_class=error_class or code.error_class,
        tool_name=tool,
        mode="chat",
        message=message or f"{tool} is not allowed in chat mode",
        next_action="Continue without it.",
    )
    return ToolResult(exit_code=1, failure=failure)


DENIED = failed(ErrorCode.MODE_DENIED)
PRICES = PriceTable({"m": Price(Decimal("2.5"), Decimal(10)), "local": FREE})
