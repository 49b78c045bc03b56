"""Every order of commands, on both databases: a task's status, its events and what is found agree."""

import asyncio
import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from interlock.core.errors import SessionBusy, SessionFenced, WrongTaskStatus
from interlock.runtime.task_rows import Task, TaskStatus
from tests.harness.store import copy_store, open_store
from tests.harness.tasks import TaskHarness

QUEUE_LIMIT = 3
MAX_INTERRUPTIONS = 1
ANY = st.integers(0, 20)


class Expected:
    """A task as this model thinks it should be."""

    def __init__(self, task: Task) -> None:
        self.id, self.seq = task.id, task.message_seq
        self.status, self.to_stop, self.interruptions, self.attempts = "queued", False, 0, 0
        self.question: str | None = None
        self.open_questions: set[str] = set()

    @property
    def has_ended(self) -> bool:
        return self.status in {"done", "failed", "cancelled"}

    def end(self, status: str) -> None:
        self.status = "cancelled" if self.to_stop else status
        self.question = None
        self.open_questions.clear()


class TaskStatuses(RuleBasedStateMachine):
    """One session, one holder of its lease at a time, people who send, answer, cancel and retry."""

    config = None

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.store = open_store(self.config())
        self.shop = TaskHarness(
            self.store,
            queue_limit=QUEUE_LIMIT,
            lease_seconds=3600,
            max_interruptions=MAX_INTERRUPTIONS,
        )
        self.session = self.run(self.shop.session())
        self.tasks: list[Expected] = []
        self.lease = None
        self.late = None

    def run(self, work):
        return self.runner.run(_awaited(work))

    def teardown(self) -> None:
        assert self.shop.faults() == []
        self.store.close()
        self.runner.close()

    @property
    def first(self) -> Expected | None:
        return next((task for task in self.tasks if not task.has_ended), None)

    @property
    def runs_here(self) -> bool:
        return self.lease is not None and self.first is not None and self.first.status == "running"

    # -- people --

    @rule()
    def send(self) -> None:
        self._sent(self.shop.put(self.session))

    @rule(which=ANY)
    @precondition(lambda self: self.tasks)
    def retry(self, which: int) -> None:
        task = self.tasks[which % len(self.tasks)]
        if task.status in {"failed", "cancelled"}:
            self._sent(self.shop.tasks.retry(task.id, who="ada"))
        else:
            with pytest.raises(WrongTaskStatus):
                self.run(self.shop.tasks.retry(task.id, who="ada"))

    def _sent(self, sending) -> None:
        if sum(task.status == "queued" for task in self.tasks) >= QUEUE_LIMIT:
            with pytest.raises(SessionBusy):
                self.run(sending)
            return
        task = self.run(sending)
        for other in self.tasks:
            if other.status == "waiting":
                other.status, other.question = "queued", None
            other.open_questions.clear()
        self.tasks.append(Expected(task))

    @rule(which=ANY)
    @precondition(lambda self: self.tasks)
    def cancel(self, which: int) -> None:
        task = self.tasks[which % len(self.tasks)]
        if task.has_ended:
            with pytest.raises(WrongTaskStatus):
                self.run(self.shop.tasks.cancel(task.id, who="ben"))
            return
        self.run(self.shop.tasks.cancel(task.id, who="ben"))
        task.to_stop = True
        if task.status != "running":
            task.end("cancelled")

    @rule(which=ANY, answered=st.booleans())
    @precondition(lambda self: any(task.open_questions for task in self.tasks))
    def close_question(self, which: int, answered: bool) -> None:
        open_ones = sorted((q, task) for task in self.tasks for q in task.open_questions)
        question, task = open_ones[which % len(open_ones)]
        if answered:
            self.run(self.shop.questions.answer(question, {"confirmed": True}, who="ada"))
        else:
            self.run(self.shop.questions.expire(question, reason="no", who="ada"))
        task.open_questions.discard(question)
        if task.question == question:
            task.status, task.question = "queued", None

    # -- workers --

    @rule()
    def take(self) -> None:
        lease = self.run(self.shop.leases.take(self.session, "w"))
        assert (lease is None) == (self.lease is not None)
        self.lease = self.lease or lease

    @rule()
    @precondition(lambda self: self.lease is not None and not self.runs_here)
    def release(self) -> None:
        self.run(self.shop.leases.release(self.lease))
        self.late, self.lease = self.lease, None

    @rule()
    @precondition(lambda self: self.lease is not None)
    def die(self) -> None:
        self.shop.expire_lease(self.session)
        self.late, self.lease = self.lease, None

    @rule()
    @precondition(lambda self: self.lease is not None and self.first is not None)
    def start(self) -> None:
        """Whoever holds the session takes up what is to be done; running says that another one died."""
        task = self.run(self.shop.tasks.resumable(self.session))
        assert (task is None) == (self.first.status == "waiting")
        if task is None:
            return
        first = self.first
        assert task.id == first.id
        is_interruption = first.status == "running"
        started = self.run(self.shop.tasks.start(task.id, self.lease))
        if is_interruption and (first.to_stop or first.interruptions == MAX_INTERRUPTIONS):
            first.end("failed")
            assert started.status == first.status
            return
        first.status = "running"
        first.interruptions += is_interruption
        first.attempts += 1

    @rule()
    @precondition(lambda self: self.runs_here)
    def ask(self) -> None:
        task = self.run(self.shop.tasks.get(self.first.id))
        question = self.run(self.shop.asked(task, self.lease))
        self.first.open_questions.add(question.id)

    @rule()
    @precondition(lambda self: self.runs_here and self.first.open_questions)
    def park(self) -> None:
        first = self.first
        question = min(first.open_questions)
        self.run(self.shop.tasks.wait(first.id, question, self.lease))
        if first.to_stop:
            first.end("cancelled")
        else:
            first.status, first.question = "waiting", question

    @rule(status=st.sampled_from([TaskStatus.done, TaskStatus.failed]))
    @precondition(lambda self: self.runs_here)
    def finish(self, status: TaskStatus) -> None:
        first = self.first
        self.run(self.shop.tasks.finish(first.id, status, "because", self.lease))
        first.end(status)

    @rule()
    @precondition(lambda self: self.runs_here)
    def leave_off(self) -> None:
        first = self.first
        self.run(self.shop.tasks.put_back(first.id, self.lease))
        if first.to_stop:
            first.end("cancelled")
        else:
            first.status = "queued"

    @rule(which=ANY, what=st.sampled_from(["start", "finish", "put_back"]))
    @precondition(lambda self: self.late is not None and self.tasks)
    def come_late(self, which: int, what: str) -> None:
        task = self.tasks[which % len(self.tasks)]
        arguments = (task.id, TaskStatus.done, "") if what == "finish" else (task.id,)
        with pytest.raises(SessionFenced):
            self.run(getattr(self.shop.tasks, what)(*arguments, self.late))

    # -- what always holds --

    @invariant()
    def rows_are_as_expected(self) -> None:
        found = {task.id: task for task in self.run(self.shop.tasks.list_tasks(session_id=self.session))}
        assert found.keys() == {task.id for task in self.tasks}
        for task in self.tasks:
            row = found[task.id]
            assert (row.status, row.question_id, row.attempts) == (
                task.status,
                task.question,
                task.attempts,
            )
            assert (row.is_cancel_requested, row.interruptions) == (task.to_stop, task.interruptions)
            assert (row.ended_us is not None) == task.has_ended

    @invariant()
    def each_end_is_told_once(self) -> None:
        told = self.shop.ends(self.session)
        assert len({task_id for task_id, _ in told}) == len(told)
        assert dict(told) == {task.id: task.status for task in self.tasks if task.has_ended}

    @invariant()
    def what_is_open_to_be_done_is_found(self) -> None:
        has_work = self.lease is None and self.first is not None and self.first.status != "waiting"
        assert (self.session in self.run(self.shop.backlog.find_work(1000))) == has_work
        is_to_stop = {task.id for task in self.tasks if task.status == "running" and task.to_stop}
        found = self.run(self.shop.backlog.to_stop())
        assert found & {task.id for task in self.tasks} == is_to_stop

    @invariant()
    def open_questions_are_as_expected(self) -> None:
        found = {question.id for question in self.run(self.shop.questions.open_questions(self.session))}
        assert found == {question for task in self.tasks for question in task.open_questions}


def _itself(config):
    return config


async def _awaited(work):
    return await work


def check(config, max_examples: int) -> None:
    machine = type("OnOneDatabase", (TaskStatuses,), {"config": staticmethod(config)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=max_examples,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def on_sqlite(template: Path):
    return lambda: copy_store(template, Path(tempfile.mkdtemp()) / "state")


def test_every_order_of_commands_on_sqlite(sqlite_template, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    check(on_sqlite(sqlite_template), 25)


def test_every_order_of_commands_on_postgresql(postgres_server):
    """One database for all: each run has a session of its own."""
    with postgres_server.database() as config:
        check(partial(_itself, config), 10)


@pytest.mark.full
def test_far_more_orders_of_commands(sqlite_template, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    check(on_sqlite(sqlite_template), 400)
