"""Every error Interlock raises on purpose, and who receives it.

    InterlockError
    ├── ToolError                to the model: one tool call failed, the task goes on
    ├── UserError                to the person: this request cannot be done
    │   ├── BadUsage             the command was not understood
    │   ├── SessionNotFound
    │   ├── SessionFenced        another worker holds the session now: write nothing more
    │   ├── SessionBusy
    │   ├── NothingToUndo        no file change is stored under that name
    │   ├── ModeNotOpen          the operator has not opened that mode
    │   ├── InvalidStoredSettings      a change of the stored settings was refused
    │   │   └── UnreadableSettings  a stored version has faults (sessions/runtime_settings.py)
    │   ├── QuestionNotFound
    │   ├── QuestionAlreadyClosed       it was answered or closed before
    │   ├── InvalidAnswer        the answer does not fit the question
    │   ├── TaskNotFound
    │   ├── WrongTaskStatus      a task with that status cannot be cancelled or retried
    │   ├── ModelNotListed       the operator has not listed that model (models/configured_models.py)
    │   ├── AgentNotFound        ├── AgentInvalid  its file has a fault (agent/definitions.py)
    │   ├── AgentChangedSinceStart         its file is not the one that the task began with
    │   ├── WorkflowNotFound     ├── WorkflowInvalid  its files have faults (workflow/directory.py)
    │   ├── RunNotFound          ├── WrongRunStatus   its status does not allow it (workflow/run_rows.py)
    │   └── RunDefinitionChanged           its stored definition is not the one it was started with
    ├── ModelError               ends the turn, or the request is retried (models/provider.py)
    ├── SandboxUnavailable       no sandbox can confine a child here (sandbox/jobs.py): none is started
    ├── PreconditionFailed       a unit's condition was not met at its write: decide again
    ├── StoreConflict            two writers wanted the same row: raised to the caller
    ├── AuditUnavailable         ends the task: an action that cannot be recorded is not done
    └── FatalError               to the operator, in one line, with a non-zero exit
        ├── ConfigurationError
        └── StoreError
            ├── StoreUnavailable the connection is lost or the disk fails; may be transient
            ├── StoreUnwritable  ├── StoreLocked  ├── StoreFull
            ├── StoreCorrupt     ├── StoreForeign ├── StoreTooNew
            └── StatementRefused the fault of one request, not of the store

Foreign errors are mapped at one edge each: database errors in `db/driver.py`, validation errors of settings
in `config/settings.py`, anything a tool raises in `gates/runner.py`.
"""

from enum import StrEnum


class ErrorClass(StrEnum):
    """The five classes that limits, retries and audits count by."""

    validation = "validation"
    policy = "policy"
    timeout = "timeout"
    tool_exec = "tool_exec"
    unknown = "unknown"


class ErrorCode(StrEnum):
    """Why a tool call gave no result."""

    TOOL_NOT_FOUND = "TOOL_NOT_FOUND"
    MODE_DENIED = "MODE_DENIED"
    TOOL_NOT_AVAILABLE = "TOOL_NOT_AVAILABLE"
    PATH_DENIED = "PATH_DENIED"
    COMMAND_DENIED = "COMMAND_DENIED"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    INVALID_ARGS = "INVALID_ARGS"
    READ_REQUIRED = "READ_REQUIRED"
    STALE_READ = "STALE_READ"
    STALE_CURSOR = "STALE_CURSOR"
    REDACTED_CONTENT = "REDACTED_CONTENT"
    E_INVALID_TRANSITION = "E_INVALID_TRANSITION"
    TIMEOUT = "TIMEOUT"
    EXECUTION_ERROR = "EXECUTION_ERROR"
    CANCELLED = "CANCELLED"
    INTERRUPTED = "INTERRUPTED"

    @property
    def error_class(self) -> ErrorClass:
        return _CLASS_OF[self]


_CLASS_OF = {
    ErrorCode.TOOL_NOT_FOUND: ErrorClass.validation,
    ErrorCode.MODE_DENIED: ErrorClass.policy,
    ErrorCode.TOOL_NOT_AVAILABLE: ErrorClass.policy,
    ErrorCode.PATH_DENIED: ErrorClass.policy,
    ErrorCode.COMMAND_DENIED: ErrorClass.policy,
    ErrorCode.LIMIT_EXCEEDED: ErrorClass.policy,
    ErrorCode.INVALID_ARGS: ErrorClass.validation,
    ErrorCode.READ_REQUIRED: ErrorClass.validation,
    ErrorCode.STALE_READ: ErrorClass.validation,
    ErrorCode.STALE_CURSOR: ErrorClass.validation,
    ErrorCode.REDACTED_CONTENT: ErrorClass.validation,
    ErrorCode.E_INVALID_TRANSITION: ErrorClass.validation,
    ErrorCode.TIMEOUT: ErrorClass.timeout,
    ErrorCode.EXECUTION_ERROR: ErrorClass.tool_exec,
    ErrorCode.CANCELLED: ErrorClass.tool_exec,
    ErrorCode.INTERRUPTED: ErrorClass.tool_exec,
}


class InterlockError(Exception):
    """The root. Its text is always one sentence a person can act on."""

    code = "INTERNAL_ERROR"


class ToolError(InterlockError):
    """A tool's failure, with a text for the model.

    `is_an_answer`: the tool works and the request was wrong, such as a file that does not exist.
    `redacted`: a secret was already masked in the text.
    """

    redacted = False

    def __init__(
        self,
        error_code: ErrorCode,
        message: str,
        next_action: str,
        *,
        is_an_answer: bool = False,
        redacted: bool = False,
    ) -> None:
        super().__init__(message)
        self.is_an_answer = is_an_answer
        self.redacted = redacted
        self.error_code = error_code
        self.message = message
        self.next_action = next_action


class UserError(InterlockError):
    code = "INVALID_PARAMS"


class BadUsage(UserError):
    code = "BAD_USAGE"


class SessionNotFound(UserError):
    code = "SESSION_NOT_FOUND"


class SessionFenced(UserError):
    code = "SESSION_FENCED"


class SessionBusy(UserError):
    code = "SESSION_BUSY"


class NothingToUndo(UserError):
    code = "NOTHING_TO_UNDO"


class ModeNotOpen(UserError):
    code = "MODE_NOT_OPEN"


class InvalidStoredSettings(UserError):
    code = "INVALID_SETTINGS"


class QuestionNotFound(UserError):
    code = "QUESTION_NOT_FOUND"


class QuestionAlreadyClosed(UserError):
    code = "QUESTION_CLOSED"


class InvalidAnswer(UserError):
    code = "INVALID_ANSWER"


class TaskNotFound(UserError):
    code = "TASK_NOT_FOUND"


class WrongTaskStatus(UserError):
    code = "TASK_STATUS"


class PreconditionFailed(InterlockError):
    code = "CONDITION_CHANGED"


class StoreConflict(InterlockError):
    code = "CONFLICT"


class AuditUnavailable(InterlockError):
    code = "AUDIT_UNAVAILABLE"


class FatalError(InterlockError):
    code = "CANNOT_START"


class ConfigurationError(FatalError):
    code = "INVALID_CONFIGURATION"


class StoreError(FatalError):
    code = "STORE_ERROR"


class StoreUnavailable(StoreError):
    code = "STORE_AWAY"


class StoreUnwritable(StoreError):
    code = "STORE_UNWRITABLE"


class StoreLocked(StoreError):
    code = "STORE_LOCKED"


class StoreFull(StoreError):
    code = "STORE_FULL"


class StoreCorrupt(StoreError):
    code = "STORE_CORRUPT"


class StoreForeign(StoreError):
    code = "STORE_FOREIGN"


class StatementRefused(StoreError):
    code = "STATEMENT_REFUSED"


class StoreTooNew(StoreError):
    code = "STORE_TOO_NEW"


def unwrap_audit_error(error: BaseException) -> BaseException | None:
    """The error itself, or the cause of an `AuditUnavailable`."""
    return error.__cause__ if isinstance(error, AuditUnavailable) else error


def is_transient(error: BaseException) -> bool:
    """Whether the store is unavailable, locked, full or unwritable, so that a retry may succeed."""
    return isinstance(
        unwrap_audit_error(error), StoreUnavailable | StoreFull | StoreLocked | StoreUnwritable
    )
