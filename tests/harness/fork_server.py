"""Starts `interlock` in processes of their own, quickly: everything is loaded once, then forked.

A line of JSON on stdin starts one: its environment, its words, its folder, its three streams (the paths of
files, or of one terminal), and at which call it is to kill itself (`CLASS.METHOD:before|after:N`). Its
number, and later its end, are lines on stdout.
"""

import fcntl
import importlib
import json
import os
import signal
import sys
import termios
import threading
import time
from typing import Any

CLASS_MODULES = {
    "TelegramStore": "interlock.channels.telegram.store",
    "BotApiClient": "interlock.channels.telegram.bot_api",
    "TaskService": "interlock.runtime.tasks",
    "QuestionService": "interlock.questions.service",
}
PRELOADED_MODULES = (
    "interlock.cli.main",
    "interlock.cli.telegram_bot",
    "interlock.wiring.agents",
    "interlock.cli.worker",
)
PRELOADED_MODULES += (
    "interlock.wiring.telegram",
    "interlock.models.scripted_provider",
    "interlock.cli.serve",
    "cyclopts",
)
PRELOADED_MODULES += ("interlock.models.openai_chat", "interlock.models.demo", "interlock.cli.chat")
PRELOADED_MODULES += (
    "interlock.cli.execute",
    "interlock.cli.events",
    "interlock.cli.tool",
    "interlock.channels.terminal.local_session",
)
PRELOADED_MODULES += (
    "interlock.channels.terminal.view",
    "interlock.agent.loop",
    "rich.table",
    "rich.console",
)


def install_kill_point(moment: str) -> None:
    named, when, count = moment.split(":")
    owner_name, method = named.split(".")
    owner = getattr(importlib.import_module(CLASS_MODULES[owner_name]), owner_name)
    real, left = getattr(owner, method), [int(count)]

    async def dying(self: Any, *arguments: Any, **more: Any) -> Any:
        left[0] -= 1
        if when == "before" and left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        result = await real(self, *arguments, **more)
        if when == "after" and left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, method, dying)


def warm_up(environment: dict[str, str]) -> None:
    """What every process makes for itself when it starts, and what is the same in all of them."""
    from interlock.config.settings import load_settings
    from interlock.redaction.factory import build_redactor

    os.environ.update(environment)
    build_redactor(load_settings()).text("x")


def run_interlock(order: dict[str, Any]) -> None:
    from interlock.cli.main import main

    os.environ.clear()
    os.environ.update({"LC_CTYPE": "C.UTF-8"} | order["environment"])
    time.tzset()
    os.chdir(order["folder"])
    # As a shell starts it: whoever sends a signal to one means that one alone.
    os.setsid()
    for number, path in enumerate(order["streams"]):
        flags = os.O_RDWR if order["is_terminal"] else (os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY)
        opened = os.open(path, flags | os.O_APPEND, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    if order["is_terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # What was opened before is not what it would have.
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    if order["dies_at"]:
        install_kill_point(order["dies_at"])
    main(order["words"])


def report_exit(pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    os.write(1, f"{pid} {os.waitstatus_to_exitcode(status)}\n".encode())


def serve() -> None:
    for name in PRELOADED_MODULES:
        importlib.import_module(name)
    is_warm = False
    for line in sys.stdin:
        order = json.loads(line)
        if not is_warm:
            warm_up(order["environment"])
            is_warm = True
        pid = os.fork()
        if pid == 0:
            try:
                run_interlock(order)
            except SystemExit as end:
                threading._shutdown()
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(int(end.code or 0))
            finally:
                os._exit(70)
        os.write(1, f"{pid}\n".encode())
        threading.Thread(target=report_exit, args=(pid,), daemon=True).start()


if __name__ == "__main__":
    serve()
