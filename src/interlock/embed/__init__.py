"""Interlock within a program of your own: the same gates, sandbox and log, without its agent or its page.

What stands in `__all__` is the public surface, and nothing else is. `examples/embed.py` uses all that one
needs first; docs/howto/developer.md tells the rest.
"""

from interlock.core.errors import AuditUnavailable, ErrorCode, InterlockError, ModeNotOpen, ToolError
from interlock.embed.function_tools import tool
from interlock.embed.gates import GatedSession, Gates, open_gates
from interlock.log.verify.event_log import VerificationReport
from interlock.policy.authority import Authority
from interlock.tools.result import ToolFailure, ToolResult
from interlock.tools.tool import BaseTool, Effect, PolicySwitch, ToolContext, ToolMode
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
    "ToolContext",
    "ToolError",
    "ToolFailure",
    "ToolMode",
    "ToolResult",
    "UndoReport",
    "VerificationReport",
    "open_gates",
    "tool",
]
