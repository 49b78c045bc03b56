"""A clock that moves when told to, and results as tools give them."""

from decimal import Decimal

from interlock.agent.budget import FREE, Price, PriceTable
from interlock.agent.limit_tracker import LimitTracker, PriorUsage
from interlock.agent.limits import ControlLimits
from interlock.core.errors import ErrorClass, ErrorCode
from interlock.tools.result import ToolFailure, ToolResult


class Clock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def control(limits: ControlLimits | None = None, clock: Clock | None = None, **more) -> LimitTracker:
    given = {"model": "m", "prices": PriceTable({}), "used": PriorUsage(), **more}
    return LimitTracker(limits or ControlLimits(), clock=clock or Clock(), **given)


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
