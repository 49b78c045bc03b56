"""The kinds of events that tell of processes: what was started, what ended, what would not stay up."""

from dataclasses import dataclass

from interlock.log.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStarted(Event):
    """A process that looks after others began; they stand under it."""

    kind = "process.started"
    role: str
    pid: int
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpawned(Event):
    """`place` is its number among its kind; `starts` counts how often that place was filled."""

    kind = "worker.spawned"
    place: int
    pid: int
    starts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStarted(Event):
    """A process takes up tasks from now on. `worker` is what leases and `task.started` call it."""

    kind = "worker.started"
    # As in `task.started`: the two are compared.
    outside = ()
    worker: str
    pid: int
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerExited(Event):
    """`code` is its exit code, or minus the number of the signal that ended it."""

    kind = "worker.exited"
    place: int
    pid: int
    code: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashLoopDetected(Event):
    """So many ends in a row, none of them after a stable run: it is not started again."""

    kind = "crash_loop.detected"
    place: int
    exits: int
    code: int


PROCESS_EVENTS = (ProcessStarted, WorkerSpawned, WorkerStarted, WorkerExited, CrashLoopDetected)
