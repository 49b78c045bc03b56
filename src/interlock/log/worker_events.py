"""The kinds of events about processes: starts, exits and crash loops."""

from dataclasses import dataclass

from interlock.log.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStarted(Event):
    """A supervisor started; its workers are its children in the tree."""

    kind = "process.started"
    role: str
    pid: int
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpawned(Event):
    """`place` is the worker's slot; `starts` counts how often that slot was filled."""

    kind = "worker.spawned"
    place: int
    pid: int
    starts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStarted(Event):
    """A worker takes tasks from now on. `worker` is its name in leases and `task.started`."""

    kind = "worker.started"
    # As in `task.started`: the two are compared.
    outside = ()
    worker: str
    pid: int
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerExited(Event):
    """`code` is the exit code, or minus the number of the signal that killed it."""

    kind = "worker.exited"
    place: int
    pid: int
    code: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCrashLoopDetected(Event):
    """So many exits in a row without a stable run: the worker is not started again."""

    kind = "crash_loop.detected"
    place: int
    exits: int
    code: int


PROCESS_EVENTS = (ProcessStarted, WorkerSpawned, WorkerStarted, WorkerExited, WorkerCrashLoopDetected)
