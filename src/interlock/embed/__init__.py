"""Interlock within a program of your own: the same gates, sandbox and log, without its agent or its page.

What stands in `__all__` is the public surface, and nothing else is. `examples/embed.py` uses all that one
needs first; docs/howto/developer.md tells the rest.
"""

from interlock.embed.gates import GatedSession, Gates, open_gates
from interlock.embed.own import tool
from interlock.events.verify import Report
from interlock.gates.authority import Authority
from interlock.infra.errors import AuditUnavailable, ErrorCode, InterlockError, ModeNotOpen, ToolError
from interlock.tools.base import BaseTool, Effect, PolicySwitch, ToolContext, ToolMode
from interlock.tools.result import ToolFailure, ToolResult
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
    "Report",
    "ToolContext",
    "ToolError",
    "ToolFailure",
    "ToolMode",
    "ToolResult",
    "UndoReport",
    "open_gates",
    "tool",
]
