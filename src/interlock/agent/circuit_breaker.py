"""Leaves alone what keeps failing: a model, or a tool, by its key.

    closed ── 5 failures of one class, no success between ──▶ open ── 30 seconds ──▶ half open
       ▲                                                       ▲                        │ one probe
       └──────────────────── the probe succeeds ───────────────┴── the probe fails ─────┘

Whoever wants to try asks `allows` and says with the permit how it went. An outcome whose permit is from
before the last change is old news and changes nothing. Nothing here waits, so tasks of one event loop
share it safely.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from interlock.agent.limits import ControlLimits
from interlock.core.errors import ErrorClass, ErrorCode
from interlock.log.task_events import CircuitClosed, CircuitHalfOpen, CircuitOpened
from interlock.models.provider import ModelError, ModelFault
from interlock.tools.result import ToolFailure, ToolResult

# How long somebody waits who comes while another one tries.
PROBE_WAIT_SECONDS = 1.0
# A probe that was never heard of again does not keep everybody else away for ever.
PROBE_LOST_SECONDS = 600.0
MAX_CIRCUITS = 4096

# The request or the model's answer was at fault: that says nothing about the next one.
_OF_THE_REQUEST = frozenset({ModelFault.invalid_request, ModelFault.too_long, ModelFault.validation})
_OF_THE_TOOL = frozenset({ErrorClass.tool_exec, ErrorClass.timeout, ErrorClass.unknown})
_WAS_STOPPED = frozenset({ErrorCode.CANCELLED, ErrorCode.INTERRUPTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitKey:
    """A model, or a tool in one session: one person's failing calls must not take it away from others."""

    model: str = ""
    tool_name: str = ""
    session_id: str = ""


@dataclass(frozen=True, slots=True)
class NormalPermit:
    key: CircuitKey
    number: int


@dataclass(frozen=True, slots=True)
class ProbePermit:
    """The one try of a half-open circuit. It must be settled: `released` in a `finally` does no harm."""

    key: CircuitKey
    number: int
    events: tuple[CircuitHalfOpen, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenCircuit:
    key: CircuitKey
    error_class: str
    failures: int
    seconds_left: float
    # What the last failure said.
    reason: str = ""


Permit = NormalPermit | ProbePermit


@dataclass(slots=True)
class _Circuit:
    failures: dict[str, int] = field(default_factory=dict)
    # The class that opened it; None while it is closed.
    opened_by: str | None = None
    reason: str = ""
    open_until: float = 0.0
    half_open: bool = False
    probe: int | None = None
    probe_until: float = 0.0
    # Permits below this number are from before the last change.
    valid_from: int = 0


class CircuitBreakers:
    """All circuits of a process."""

    def __init__(self, limits: ControlLimits, clock: Callable[[], float] = time.monotonic) -> None:
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
        """How long nobody may try it yet, in hundredths: somebody is told."""
        circuit = self._circuits.get(key)
        if circuit is None or circuit.opened_by is None:
            return 0.0
        return max(0.0, math.ceil((circuit.open_until - self._clock()) * 100) / 100)

    def failed(self, permit: Permit, error_class: str, reason: str = "") -> tuple[CircuitOpened, ...]:
        if error_class in _OF_THE_REQUEST:
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
        """It ended without telling anything: cancelled, say. Another one may probe."""
        circuit = self._circuits.get(permit.key)
        if circuit is not None and circuit.probe == permit.number:
            circuit.probe = None

    def record_tool_result(
        self, permit: Permit, result: ToolResult
    ) -> tuple[CircuitOpened | CircuitClosed, ...]:
        """A refusal, wrong arguments and a stop say nothing about it; any answer says that it works, also
        that there is no such file."""
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
        """Keys come and go with sessions; of those that are closed the oldest are forgotten."""
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
    """What a call of it gives meanwhile. The text never changes, so that repeating it is no progress."""
    return ToolFailure(
        error_code=ErrorCode.EXECUTION_ERROR,
        error_class=ErrorClass.tool_exec,
        tool_name=tool_name,
        mode=mode,
        message=f"{tool_name} failed {circuit.failures} times in a row and is suspended for a while",
        next_action="Try a different approach, or tell the user that the tool does not work.",
    )
