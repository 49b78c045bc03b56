"""What comes as it happens also comes through a pipe as it happens."""

import json
import os
import subprocess
from contextlib import contextmanager
from select import select

PATIENCE = 60.0


@contextmanager
def started(interlock, *words):
    pipe = subprocess.PIPE
    process = interlock.start(*words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_until(process, words):
    """What it printed until these words came."""
    text = ""
    while words not in text:
        assert select([process.stdout], [], [], PATIENCE)[0], f"nothing more came after: {text}"
        piece = os.read(process.stdout.fileno(), 65536)
        assert piece, f"it ended after: {text}"
        text += piece.decode()
    return text


def test_a_tail_that_follows_shows_events_when_they_come(interlock):
    session = interlock.json("tool", "call", "current_time")["session_id"]
    with started(interlock, "events", "tail", session, "--follow") as tail:
        read_until(tail, "tool_call.completed")
        interlock("tool", "call", "bash", "--session", session, expect=3)
        assert "tool_call.completed" not in read_until(tail, "tool_call.denied"), "each is shown once"


def test_a_chat_shows_its_question_before_it_waits_for_the_answer(interlock):
    question = {"type": "confirmation", "message": "Go on?"}
    asking = {"tool_calls": [{"name": "ask_user", "arguments": question}]}
    interlock.variables["MODEL"] = f"scripted:{json.dumps([asking, 'msg:Thank you.'])}"
    with started(interlock, "chat") as chat:
        chat.stdin.write(b"go\n")
        chat.stdin.flush()
        assert "Thank you." not in read_until(chat, "Go on?")
        chat.stdin.write(b"y\n")
        chat.stdin.flush()
        read_until(chat, "Thank you.")
        chat.stdin.write(b"/mode\n")
        chat.stdin.flush()
        read_until(chat, "chat_safe")


def test_what_is_printed_and_what_is_noted_come_in_order_through_one_pipe(interlock):
    interlock.variables["MODEL"] = f"scripted:{json.dumps(['msg:the answer'])}"
    process = interlock.start("exec", "go", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = process.communicate(timeout=PATIENCE)[0].decode().splitlines()
    assert [line.split()[0] for line in lines] == ["the", "recorded"]
