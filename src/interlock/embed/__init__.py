"""Interlock within a program of your own: the same gates, sandbox and log, without its agent or its page.

The names in `__all__` are the public API, and nothing else is. `examples/embed.py` is a first example;
docs/howto/developer.md has the rest.
"""

from interlock.core.errors import AuditUnavailable, ErrorCode, InterlockError, ModeNotOpen, ToolError
from interlock.embed.function_tools import tool
from interlock.embed.gates import GatedSession, Gates, open_gates
from interlock.log.verify.event_log import VerificationReport
from interlock.policy.authority import Authority
from interlock.tools.result import ToolFailure, ToolResult
from interlock.tools.tool import (
    BaseTool,
    Effect,
    PolicySwitch,
    ToolArguments,
    ToolContext,
    ToolMode,
    TypedTool,
)
from interlock.wiring import UndoReport

__all__ = [
    "AuditUnavailable",
    "Authority",
    "BaseTool",
    "Effect",
    "ErrorCode",
    "GatedSession",
    "Gates",
    "InterlockError",
    "ModeNotOpen",
    "PolicySwitch",
    "ToolArguments",
    "ToolContext",
    "ToolError",
    "ToolFailure",
    "ToolMode",
    "ToolResult",
    "TypedTool",
    "UndoReport",
    "VerificationReport",
    "open_gates",
    "tool",
]
