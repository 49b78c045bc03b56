"""The result that every tool call returns, whatever its outcome."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from interlock.core.errors import ErrorClass, ErrorCode


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """Why there is no result. A failure of class `policy` is a denial."""

    error_code: ErrorCode
    error_class: ErrorClass
    tool_name: str
    mode: str
    message: str
    next_action: str
    # The tool works: the program it ran reported a failure, or the requested thing does not exist.
    is_an_answer: bool = False

    @property
    def is_denial(self) -> bool:
        return self.error_class is ErrorClass.policy


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTouch:
    """What a call read of a file or wrote to it, as its event records it.

    `sha256` is of the bytes from `hashed_from` to `hashed_to`; the model knows those from `seen_from` to
    `seen_to`. A removed file has no hash.
    """

    path: str
    action: str
    sha256: str | None = None
    hashed_from: int = 0
    hashed_to: int = 0
    seen_from: int = 0
    seen_to: int = 0

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a call. `exit_code` is 0 on success; a command that ran and failed keeps its own."""

    exit_code: int = 0
    stdout: str = ""
    stderr: str = ""
    truncated_lines: bool = False
    truncated_bytes: bool = False
    next_page_cursor: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    # The open question that this call waits for: it has no outcome until it is answered.
    question_id: str | None = None
    touched: tuple[FileTouch, ...] = ()
    # Tokens that models used for it, in and out, by model name: they count against the caller's budget.
    used: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    failure: ToolFailure | None = None
    # The tool itself masked a secret in it, before the runner redacts.
    redacted: bool = False

    @classmethod
    def failed(cls, failure: ToolFailure, *, redacted: bool = False) -> "ToolResult":
        return cls(exit_code=1, failure=failure, redacted=redacted)

    @property
    def ok(self) -> bool:
        return self.failure is None

    def __str__(self) -> str:
        """The output, or the failure message."""
        return self.stdout.rstrip("\n") if self.failure is None else self.failure.message

    def as_dict(self) -> dict[str, Any]:
        """The result for the model and the command line; a denial has exactly six fields."""
        failure = self.failure
        if failure is not None and failure.is_denial:
            return {
                "ok": False,
                "error_code": failure.error_code.value,
                "tool_name": failure.tool_name,
                "mode": failure.mode,
                "message": failure.message,
                "next_action": failure.next_action,
            }
        envelope: dict[str, Any] = {
            "ok": self.ok,
            "exit_code": self.exit_code,
            "stdout": self.stdout,
            "stderr": self.stderr,
            "truncated_lines": self.truncated_lines,
            "truncated_bytes": self.truncated_bytes,
        }
        if self.next_page_cursor is not None:
            envelope["next_page_cursor"] = self.next_page_cursor
        if self.meta:
            envelope["meta"] = dict(self.meta)
        if failure is not None:
            envelope |= {
                "error_code": failure.error_code.value,
                "error_class": failure.error_class.value,
                "message": failure.message,
                "next_action": failure.next_action,
            }
        return envelope
