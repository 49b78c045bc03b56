"""The conversations that are recorded: a scripted model, a mode, and what a person says and answers."""

from dataclasses import dataclass, field
from typing import Any

from tests.harness import runtime


def call(name: str, **arguments: object) -> dict[str, object]:
    """A turn of the scripted model with one call."""
    return {"tool_calls": [runtime.call(name, **arguments)]}


CONFIRM = {"type": "confirmation", "message": "Shall I?"}


@dataclass(frozen=True)
class Recorded:
    script: tuple[Any, ...]
    mode: str = "chat_safe"
    says: str = "go"
    # What the person answers to each question.
    answers: tuple[dict[str, Any], ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    exit_code: int = 0
    # `exec` and Telegram have no person to answer in time, or take no such turn.
    channels: tuple[str, ...] = ("gateway", "telegram", "exec")


CONVERSATIONS = {
    "plain_answer": Recorded(script=("msg:Hello, **Ada**.",), says="hello"),
    "denied_call": Recorded(
        script=(call("read_file", path="notes.txt"), "msg:I may not read files here."),
        says="read notes.txt",
        files={"notes.txt": "secret plans\n"},
    ),
    "calls_that_work": Recorded(
        script=(
            call("write_file", path="a/new.txt", content="one\ntwo\n"),
            call("read_file", path="a/new.txt"),
            call("edit_file", path="a/new.txt", find="two", replace="three"),
            "msg:Done.",
        ),
        mode="coding",
        says="write a file",
    ),
    "calls_that_fail": Recorded(
        script=(
            call("read_file", path="missing.txt"),
            call("read_file", path="/etc/passwd"),
            call("no_such_tool"),
            call("read_file", nonsense=True),
            "msg:Nothing of that worked.",
        ),
        mode="coding",
        says="try things",
    ),
    "alias": Recorded(
        script=(call("fs.read", path="notes.txt"), call("fs.write", path="x", content="y"), "msg:Read."),
        mode="chat",
        files={"notes.txt": "one line\n"},
    ),
    "refused_until_the_limit": Recorded(
        script=(
            call("bash", cmd="ls"),
            call("bash", cmd="ls -l"),
            call("bash", cmd="ls -a"),
            "msg:I may not run commands here.",
        ),
        says="list the files",
    ),
    "masked_secret": Recorded(
        script=(call("read_file", path="config.env"), "msg:The password is hunter2hunter2."),
        mode="chat",
        files={"config.env": "DB_PASSWORD=hunter2hunter2\n"},
    ),
    "question": Recorded(
        script=(call("ask_user", **CONFIRM), "msg:Thank you."),
        says="ask me",
        answers=({"confirmed": True},),
        channels=("gateway",),
    ),
    "model_fails": Recorded(
        script=("err:auth",),
        says="hello",
        exit_code=1,
    ),
}
