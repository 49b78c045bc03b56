"""Circuit breakers: suspend a model or tool that keeps failing, by its key.

    closed ── 5 failures of one class, no success between ──▶ open ── 30 seconds ──▶ half open
       ▲                                                       ▲                        │ one probe
       └──────────────────── the probe succeeds ───────────────┴── the probe fails ─────┘

A caller asks `allows` and reports the outcome with the permit. An outcome whose permit predates the last
change is ignored. Nothing here awaits, so tasks of one event loop share it safely.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from interlock.config.limits import TaskLimitSettings
from interlock.core.errors import ErrorClass, ErrorCode
from interlock.log.task_events import CircuitClosed, CircuitHalfOpen, CircuitOpened
from interlock.models.provider import ModelError, ModelFault
from interlock.tools.result import ToolFailure, ToolResult

# How long a caller waits while another one probes.
PROBE_WAIT_SECONDS = 1.0
# A probe whose outcome was never reported must not block others forever.
PROBE_LOST_SECONDS = 600.0
MAX_CIRCUITS = 4096

_OF_THE_TOOL = frozenset({ErrorClass.tool_exec, ErrorClass.timeout, ErrorClass.unknown})
_WAS_STOPPED = frozenset({ErrorCode.CANCELLED, ErrorCode.INTERRUPTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitKey:
    """A model, or a tool in one session: failing calls of one session must not suspend it in others.

    `model` is shown to people; `form`, its value in MODEL, differs between providers of the same model.
    """

    model: str = ""
    form: str = ""
    tool_name: str = ""
    session_id: str = ""


@dataclass(frozen=True, slots=True)
class NormalPermit:
    key: CircuitKey
    number: int


@dataclass(frozen=True, slots=True)
class ProbePermit:
    """The one probe of a half-open circuit. It must be settled; `released` in a `finally` is harmless."""

    key: CircuitKey
    number: int
    events: tuple[CircuitHalfOpen, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenCircuit:
    key: CircuitKey
    error_class: str
    failures: int
    seconds_left: float
    # The message of the last failure.
    reason: str = ""


Permit = NormalPermit | ProbePermit


@dataclass(slots=True)
class _Circuit:
    failures: dict[str, int] = field(default_factory=dict)
    # The error class that opened it; None while closed.
    opened_by: str | None = None
    reason: str = ""
    open_until: float = 0.0
    half_open: bool = False
    probe: int | None = None
    probe_until: float = 0.0
    # Permits below this number predate the last change.
    valid_from: int = 0


class CircuitBreakers:
    """All circuits of a process."""

    def __init__(self, limits: TaskLimitSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._circuits: dict[CircuitKey, _Circuit] = {}
        self._numbers = 0

    def allows(self, key: CircuitKey) -> Permit | OpenCircuit:
        self._numbers += 1
        circuit = self._circuits.get(key)
        if circuit is None or circuit.opened_by is None:
            return NormalPermit(key, self._numbers)
        now, error_class = self._clock(), circuit.opened_by
        failures = circuit.failures.get(error_class, 0)
        if now < circuit.open_until:
            return OpenCircuit(key, error_class, failures, circuit.open_until - now, circuit.reason)
        if circuit.probe is not None and now < circuit.probe_until:
            return OpenCircuit(key, error_class, failures, PROBE_WAIT_SECONDS, circuit.reason)
        events = (
            ()
            if circuit.half_open
            else (CircuitHalfOpen(error_class=error_class, tool_name=key.tool_name, model=key.model),)
        )
        circuit.half_open, circuit.probe = True, self._numbers
        circuit.probe_until = now + PROBE_LOST_SECONDS
        return ProbePermit(key, self._numbers, events)

    def seconds_open(self, key: CircuitKey) -> float:
        """Seconds until the circuit may be probed, rounded up to hundredths for display."""
        circuit = self._circuits.get(key)
        if circuit is None or circuit.opened_by is None:
            return 0.0
        return max(0.0, math.ceil((circuit.open_until - self._clock()) * 100) / 100)

    def failed(self, permit: Permit, error_class: str, reason: str = "") -> tuple[CircuitOpened, ...]:
        if error_class in ModelFault.__members__ and ModelFault(error_class).is_of_the_request:
            # It says nothing about the next request.
            self.released(permit)
            return ()
        circuit = self._circuits.setdefault(permit.key, _Circuit())
        if not _counts(permit, circuit):
            return ()
        failures = circuit.failures[error_class] = circuit.failures.get(error_class, 0) + 1
        circuit.reason = reason
        if circuit.opened_by is None and failures < self._limits.circuit_failures:
            self._keep_few()
            return ()
        seconds = self._limits.circuit_seconds
        circuit.opened_by, circuit.open_until = error_class, self._clock() + seconds
        self._changed(circuit)
        key = permit.key
        return (
            CircuitOpened(
                error_class=error_class,
                failures=failures,
                seconds=seconds,
                tool_name=key.tool_name,
                model=key.model,
            ),
        )

    def succeeded(self, permit: Permit) -> tuple[CircuitClosed, ...]:
        circuit = self._circuits.get(permit.key)
        if circuit is None or not _counts(permit, circuit):
            return ()
        circuit.failures.clear()
        opened_by, circuit.opened_by = circuit.opened_by, None
        if opened_by is None:
            return ()
        self._changed(circuit)
        key = permit.key
        return (CircuitClosed(error_class=opened_by, tool_name=key.tool_name, model=key.model),)

    def released(self, permit: Permit) -> None:
        """The call ended without an outcome, cancelled for example. Another may probe."""
        circuit = self._circuits.get(permit.key)
        if circuit is not None and circuit.probe == permit.number:
            circuit.probe = None

    def record_tool_result(
        self, permit: Permit, result: ToolResult
    ) -> tuple[CircuitOpened | CircuitClosed, ...]:
        """Record a result. Refusals, wrong arguments and cancellations say nothing about the tool.

        Any other answer is a success, also that a file does not exist.
        """
        failure = result.failure
        if failure is None or failure.is_an_answer:
            return self.succeeded(permit)
        if failure.error_class in _OF_THE_TOOL and failure.error_code not in _WAS_STOPPED:
            return self.failed(permit, ErrorClass.tool_exec.value)
        self.released(permit)
        return ()

    def _changed(self, circuit: _Circuit) -> None:
        circuit.half_open, circuit.probe = False, None
        circuit.valid_from = self._numbers + 1

    def _keep_few(self) -> None:
        """Forget the oldest closed circuits: keys come and go with sessions."""
        if len(self._circuits) > MAX_CIRCUITS:
            closed = [key for key, circuit in self._circuits.items() if circuit.opened_by is None]
            for key in closed[: len(closed) // 2]:
                del self._circuits[key]


def _counts(permit: Permit, circuit: _Circuit) -> bool:
    if circuit.opened_by is None:
        return permit.number >= circuit.valid_from
    return circuit.probe == permit.number


def model_circuit_open_error(model: str, circuit: OpenCircuit) -> ModelError:
    """The error of a turn while the circuit is open; `TurnRetries` waits for it as for any other."""
    return ModelError(
        ModelFault(circuit.error_class),
        f"the model '{model}' failed {circuit.failures} times in a row ({circuit.error_class}); "
        f"it is not called for another {circuit.seconds_left:.0f} seconds "
        "(CONTROL_CIRCUIT_SECONDS)" + (f"; last error: {circuit.reason}" if circuit.reason else ""),
        retry_after_seconds=circuit.seconds_left,
    )


def tool_circuit_open_failure(tool_name: str, mode: str, circuit: OpenCircuit) -> ToolFailure:
    """The result of calls meanwhile.

    Its text is constant, so that repeating the call counts as repetition.
    """
    return ToolFailure(
        error_code=ErrorCode.EXECUTION_ERROR,
        error_class=ErrorClass.tool_exec,
        tool_name=tool_name,
        mode=mode,
        message=f"{tool_name} failed {circuit.failures} times in a row and is suspended for a while",
        next_action="Try a different approach, or tell the user that the tool does not work.",
    )
