"""A session's events under the processes in which they happened."""

import pytest

from interlock.log.hash_chain import EventHeader
from interlock.log.process_grouping import group_by_process
from interlock.log.read import LogCursor, StoredEvent
from interlock.log.tree import build_tree

TASK = "t_1"


class Written:
    """Events as a store has them; each is given an id of its own."""

    def __init__(self, stream):
        self.stream = stream
        self.events = []

    def add(self, kind, parent=None, task=None, facts="{}"):
        seq = len(self.events) + 1
        event_id = f"{self.stream}-{seq}"
        header = EventHeader(event_id, seq, self.stream, seq, task, parent, kind)
        self.events.append(StoredEvent(header, facts, None, None, None, b"", b"", LogCursor(0, seq)))
        return event_id

    def attempt(self, worker, parent):
        return self.add("task.started", parent, TASK, f'{{"worker": "{worker}"}}')


def shape(nodes):
    return [(node.stored.header.id, shape(node.children)) for node in nodes]


@pytest.fixture
def system():
    """One supervisor with two workers, and a third worker that nobody looks after."""
    system = Written("system")
    supervisor = system.add("process.started")
    for name in ("one", "two"):
        spawned = system.add("worker.spawned", supervisor)
        system.add("worker.started", spawned, facts=f'{{"worker": "{name}"}}')
    system.add("settings.changed")
    system.add("worker.started", facts='{"worker": "alone"}')
    system.add("worker.exited", "system-2")
    return system


@pytest.fixture
def session():
    session = Written("s")
    session.add("session.created")
    session.add("task.queued", task=TASK)
    return session


def processes(system):
    return [event for event in system.events if event.header.kind != "settings.changed"]


def test_what_ran_stands_under_its_worker_and_that_under_its_supervisor(system, session):
    attempt = session.attempt("one", "s-2")
    agent = session.add("agent.started", attempt, TASK)
    turn = session.add("turn.completed", agent, TASK)
    session.add("tool_call.started", turn, TASK)
    lineage = group_by_process(session.events, processes(system))
    assert shape(lineage.outside) == [("s-1", []), ("s-2", [])]
    ran = (attempt, [(agent, [(turn, [("s-6", [])])])])
    worker = ("system-2", [("system-3", [ran]), ("system-8", [])])
    assert shape(lineage.processes) == [("system-1", [worker])]
    assert lineage.unrecorded == []


def test_a_task_that_another_worker_went_on_with_stands_under_both(system, session):
    first = session.attempt("one", "s-2")
    turn = session.add("turn.completed", first, TASK)
    call = session.add("tool_call.started", turn, TASK)
    second = session.attempt("two", "s-2")
    # Whoever goes on says of the first one's call that it was interrupted.
    interrupted = session.add("tool_call.interrupted", call, TASK)
    later = session.add("turn.completed", second, TASK)
    result = session.add("message.appended", turn, TASK)
    [supervisor] = group_by_process(session.events, processes(system)).processes
    (of_one, _), (of_two,) = (spawned.children for spawned in supervisor.children)
    assert shape(of_one.children) == [(first, [(turn, [(call, [])])])]
    assert shape(of_two.children) == [(second, [(interrupted, []), (later, []), (result, [])])]


def test_what_stands_under_a_later_event_of_the_first_worker_goes_along(system, session):
    """A call of an earlier turn that the second worker runs keeps its own outcome below it."""
    first = session.attempt("one", "s-2")
    turn = session.add("turn.completed", first, TASK)
    second = session.attempt("alone", "s-2")
    call = session.add("tool_call.started", turn, TASK)
    outcome = session.add("tool_call.completed", call, TASK)
    lineage = group_by_process(session.events, processes(system))
    assert shape(lineage.processes)[1] == ("system-7", [(second, [(call, [(outcome, [])])])])


def test_a_worker_without_a_supervisor_is_a_root(system, session):
    session.attempt("alone", "s-2")
    assert shape(group_by_process(session.events, processes(system)).processes) == [
        ("system-7", [("s-3", [])])
    ]


def test_a_process_that_the_log_does_not_tell_of_is_named(system, session):
    attempt = session.attempt("terminal", "s-2")
    again = session.attempt("terminal", "s-2")
    lineage = group_by_process(session.events, processes(system))
    assert lineage.processes == []
    [named] = lineage.unrecorded
    assert (named.worker, shape(named.children)) == ("terminal", [(attempt, []), (again, [])])
    assert lineage.as_json()[-1]["worker"] == "terminal"


@pytest.mark.parametrize("facts", ["{}", "[]", "not JSON", '{"worker": 7}'])
def test_an_attempt_that_does_not_say_whose_it_was_stays_in_its_task(system, session, facts):
    erased = session.add("task.started", "s-2", TASK, facts)
    lineage = group_by_process(session.events, processes(system))
    assert shape(lineage.outside)[1] == ("s-2", [(erased, [])])
    assert (lineage.processes, lineage.unrecorded) == ([], [])


def test_a_supervisor_whose_own_event_is_missing_costs_only_itself(system, session):
    session.attempt("one", "s-2")
    [worker] = group_by_process(session.events, processes(system)[1:]).processes
    assert worker.stored.header.id == "system-2"


def test_a_worker_may_tell_of_itself_before_its_supervisor_does():
    system = Written("system")
    system.add("worker.started", "system-2")
    system.add("worker.spawned")
    assert shape(build_tree(system.events)) == [("system-2", [("system-1", [])])]
