"""`interlock tasks` and `interlock worker`: what people asked for, and who works on it."""

import signal
import subprocess
import time

import pytest

from tests.harness.case_tables import each_row
from tests.harness.cli import CliRunner, one_line_error
from tests.harness.terminal import script


@pytest.fixture
def shell(tmp_path) -> CliRunner:
    return CliRunner(tmp_path, {"WORKSPACE_DIR": str(tmp_path / "workspace"), "WORKER_POLL_SECONDS": "0.1"})


def test_tasks_are_listed_shown_and_retried_and_a_worker_takes_them_up(shell):
    assert shell("tasks", "list").stderr == "no tasks\n"
    shell.variables["MODEL"] = script(shell.home, "err:auth", "msg:At last.", "ok")
    session = shell("exec", "do   it\nnow", expect=1).stderr.split()[-1]
    (failed,) = shell.json("tasks", "list", "--session", session)
    assert (failed["status"], failed["mode"], failed["attempts"]) == ("failed", "chat_safe", 1)
    shown = shell("tasks", "show", failed["id"]).stdout
    assert (
        f"task      {failed['id']}  in session {session}\nstatus    failed\nmessage   do it now\n" in shown
    )
    assert "reason    the script says: err:auth" in shown
    assert shell.json("tasks", "show", failed["id"])["message"] == "do   it\nnow"
    assert "is already failed" in one_line_error(shell, "tasks", "cancel", failed["id"])

    again = shell.json("tasks", "retry", failed["id"])
    assert (again["status"], again["retry_of"]) == ("queued", failed["id"])
    # A script's fault is raised once in a process: the next one begins with it again.
    shell.variables["MODEL"] = script(shell.home, "msg:At last.", "ok")
    with working(shell) as worker:
        until(shell, again["id"], "done")
    assert worker.returncode == 0
    transcript = shell("sessions", "show", session).stdout
    assert "At last." in transcript
    assert "only a failed or cancelled task" in one_line_error(shell, "tasks", "retry", again["id"])
    assert [task["id"] for task in shell.json("tasks", "list", "--status", "done")] == [again["id"]]
    shell("events", "verify")


def test_a_task_is_cancelled_while_it_waits_in_the_queue_and_while_it_is_worked_on(shell):
    shell.variables["MODEL"] = script(shell.home, "err:auth", "sleep:60000")
    session = shell("exec", "go", expect=1).stderr.split()[-1]
    (failed,) = shell.json("tasks", "list", "--session", session)
    first, second = (shell.json("tasks", "retry", failed["id"])["id"] for _ in range(2))
    assert shell("tasks", "cancel", second).stdout == "cancelled\n"
    shell.variables["MODEL"] = script(shell.home, "sleep:60000")
    with working(shell):
        until(shell, first, "running")
        assert shell("tasks", "cancel", first).stdout == "cancelling; notified its worker\n"
        until(shell, first, "cancelled")
    statuses = {task["id"]: task["status"] for task in shell.json("tasks", "list")}
    assert statuses == {failed["id"]: "failed", first: "cancelled", second: "cancelled"}


@each_row(
    ("arguments", "code"),
    [
        (("show", "t_nobody"), 1),
        (("cancel", "t_nobody"), 1),
        (("retry", "t_nobody"), 1),
        (("list", "--status", "asleep"), 2),
    ],
)
def test_what_is_not_there_is_told_in_one_line(shell, arguments, code):
    assert arguments[-1] in one_line_error(shell, "tasks", *arguments, expect=code)


class working:  # noqa: N801 - it reads as a word of the test
    """A worker as a process of its own, told to stop at the end."""

    def __init__(self, shell: CliRunner) -> None:
        self._shell = shell

    def __enter__(self) -> subprocess.Popen:
        self._process = self._shell.start("worker", stderr=subprocess.PIPE, text=True)
        assert "Ctrl-C to stop" in self._process.stderr.readline()
        return self._process

    def __exit__(self, *_error: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=60)


def until(shell: CliRunner, task: str, status: str) -> None:
    deadline = time.monotonic() + 60
    while (found := shell.json("tasks", "show", task)["status"]) != status:
        assert time.monotonic() < deadline, f"it is {found}"
