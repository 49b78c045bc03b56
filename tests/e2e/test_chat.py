"""`interlock chat` as a newcomer meets it: in a terminal, and in a pipe."""

import json
import readline
import subprocess

import pytest

from interlock.sessions.slash_commands import Surface, slash_commands_for
from tests.harness.case_tables import each_row
from tests.harness.cli import CliRunner, one_line_error
from tests.harness.terminal import CTRL_C, CTRL_D, PseudoTerminal, script


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    (root / "notes.txt").write_text("buy milk\n")
    return root


@pytest.fixture
def person(tmp_path) -> CliRunner:
    return CliRunner(tmp_path, {"WORKSPACE_DIR": str(tmp_path / "workspace")})


def piped(shell: CliRunner, lines: str, *arguments: str) -> subprocess.CompletedProcess:
    return shell("chat", *arguments, given=lines.encode())


def test_a_newcomer_sees_an_answer_a_denial_and_the_way_on(person):
    with PseudoTerminal(person, "chat") as terminal:
        assert "demo model, chat_safe mode" in terminal.reads()
        told = terminal.types("what time is it?")
        assert "> current_time" in told
        assert "It is 20" in told
        told = terminal.types("read notes.txt")
        assert "denied: read_file is not allowed in chat_safe mode" in told
        assert "I tried, but Interlock denied it" in told
        why = terminal.types("/why")
        assert "MODE_DENIED in chat_safe mode" in why
        assert "decided   by the tool's own declaration" in why
        assert "--mode chat --root FOLDER" in why
        refused = terminal.types("/mode coding")
        assert "coding mode is not open here" in refused
        tools = terminal.types("/tools")
        assert "yes       current_time" in tools
        assert "no        read_file is not allowed in chat_safe mode" in tools
        assert "no file changes to undo" in terminal.types("/undo")
        assert "there is no command /nonsense" in terminal.types("/nonsense")
        assert "Ctrl-C" in terminal.types("/help")
        history = terminal.types("/history")
        assert "what time is it?" in history
        terminal.keys("/quit\n")
        assert terminal.ends() == 0
    assert "interlock chat --session s_" in terminal.all


def test_in_coding_mode_files_are_read_written_edited_and_taken_back(person, folder):
    with PseudoTerminal(person, "chat", "--mode", "coding", "--root", "project") as terminal:
        terminal.reads()
        assert "buy milk" in terminal.types("read notes.txt")
        assert "created hello.txt" in terminal.types("write hello to hello.txt")
        terminal.types("replace hello with goodbye in hello.txt")
        assert (folder / "hello.txt").read_text() == "goodbye\n"
        assert "restored" in terminal.types("/undo")
        assert (folder / "hello.txt").read_text() == "hello\n"
        assert "removed" in terminal.types("/undo")
        assert not (folder / "hello.txt").exists()
        assert "no file changes to undo" in terminal.types("/undo")
        assert "denied" in terminal.types("read ../../etc/passwd")
        assert "exit code is 0" in terminal.types("run cat notes.txt")
        terminal.types("remember that the boiler is serviced in May")
        assert "serviced in May" in terminal.types("what do you remember about the boiler?")
        assert "完成" in terminal.types("把 你好 写入 hi.txt")
        assert (folder / "hi.txt").read_text() == "你好\n"
        assert "现在是" in terminal.types("现在几点?")
        terminal.keys(CTRL_D)
        assert terminal.ends() == 0
    assert f"--mode coding --root {folder}" in terminal.all


def test_ctrl_c_cancels_the_task_and_not_the_program(person):
    person.variables["MODEL"] = script(person.home, "sleep:60000")
    with PseudoTerminal(person, "chat") as terminal:
        terminal.reads()
        for _ in range(2):
            terminal.keys("go\n")
            terminal.reads("go\n".replace("\n", "\r\n"))
            session = wait_for_a_task(person)
            terminal.keys(CTRL_C)
            assert "cancelled" in terminal.reads()
        terminal.insists(CTRL_C, until="(type /quit to exit)")
        # Between two prompts the terminal keeps a Ctrl-D as a mere NUL.
        terminal.reads()
        terminal.keys(CTRL_D)
        assert terminal.ends() == 0
    tasks = person.json("tasks", "list", "--session", session)
    assert [task["status"] for task in tasks] == ["cancelled", "cancelled"]
    person("events", "verify")


def test_what_is_typed_while_a_task_runs_steers_it_or_waits(person):
    turn = '{"sleep_ms": 4000, "tool_calls": [{"name": "current_time", "arguments": {}}]}'
    person.variables["MODEL"] = script(person.home, turn, "msg:Left it is.", "msg:And on.")
    with PseudoTerminal(person, "chat") as terminal:
        terminal.reads()
        terminal.keys("go\n")
        wait_for_a_task(person)
        terminal.keys("and on\n/steer go left\n")
        terminal.reads("the running task gets this at its next turn")
        shown = terminal.reads("Left it is.")
        assert shown.index("> current_time") < shown.index("(the task got your message: go left)")
        assert "And on." in terminal.reads("And on.")
        terminal.reads()
        terminal.keys("/quit\n")
        assert terminal.ends() == 0
    said = person.json("sessions", "show", terminal_session(person))["messages"]
    asked = [each["content"] for each in said if each["role"] == "user"]
    assert asked == ["go", "go left", "and on"]
    person("events", "verify")


def test_with_nothing_at_work_steering_is_a_message(person):
    done = piped(person, "/steer\n/steer what time is it?\n/history\n")
    assert "/steer TEXT" in done.stderr
    assert "] user\nwhat time is it?\n" in done.stdout
    assert "It is 20" in done.stdout


def wait_for_a_task(person: CliRunner) -> str:
    while True:
        running = person.json("tasks", "list", "--status", "running")
        if running:
            return running[0]["session_id"]


def test_questions_are_asked_and_answered_in_place(person):
    ask = "call:ask_user "
    person.variables["MODEL"] = script(
        person.home,
        ask
        + json.dumps(
            {
                "type": "confirmation",
                "message": "Delete all?",
                "dangerous": True,
                "confirm_label": "Yes\x1b[2J",
            }
        ),
        ask
        + json.dumps(
            {"type": "selection", "message": "Which?", "options": [{"value": "tea"}, {"value": "milk"}]}
        ),
        ask + json.dumps({"type": "feedback", "message": "How was it?\x1b[2J", "rating_max": 5}),
        "msg:Thank you.",
        "ok",
    )
    with PseudoTerminal(person, "chat") as terminal:
        terminal.reads()
        assert "Delete all?" in terminal.types("go", until="n] ")
        terminal.types("y", until="n] ")
        assert "2. milk" in terminal.types("yes", until="[1 to 2] ")
        terminal.types("7", until="[1 to 2] ")
        terminal.types("milk", until="[1 to 5] ")
        terminal.types("5", until="(optional): ")
        assert "Thank you." in terminal.types("")
        session = terminal_session(person)
        terminal.keys("/quit\n")
        assert terminal.ends() == 0
    assert "\x1b[2J" not in terminal.all
    answers = [row["answer"] for row in reversed(person.json("questions", "list", "--closed"))]
    assert answers == [{"confirmed": True}, {"choices": ["milk"]}, {"rating": 5}]
    assert [task["status"] for task in person.json("tasks", "list", "--session", session)] == ["done"]


def terminal_session(person: CliRunner) -> str:
    return person.json("sessions", "list")[0]["id"]


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D])
def test_whoever_leaves_a_question_cancels_its_task(person, key):
    with PseudoTerminal(person, "chat") as terminal:
        terminal.reads()
        terminal.types("ask me whether it rains", until="n] ")
        terminal.insists(key, until="cancelled")
        terminal.reads()
        assert "It is 20" in terminal.types("what time is it?")
        terminal.keys("/quit\n")
        assert terminal.ends() == 0


def test_a_session_goes_on_where_it_was_left(person, folder):
    ask = json.dumps({"type": "confirmation", "message": "Shall I?"})
    person.variables["MODEL"] = script(
        person.home, f"call:ask_user {ask}", "msg:Thank you.", "msg:And more."
    )
    with PseudoTerminal(person, "chat", "--mode", "chat", "--root", "project") as terminal:
        terminal.reads()
        terminal.types("go", until="n] ")
        # The program dies with its question open.
    session = terminal_session(person)
    with PseudoTerminal(person, "chat", "--session", session) as terminal:
        told = terminal.reads("n] ")
        assert "the session is in chat mode, which is not open here" in told
        assert "resuming task" in told
        assert "Shall I?" in told
        assert "Thank you." in terminal.types("y")
        assert "And more." in terminal.types("and?")
        terminal.keys("/quit\n")
        assert terminal.ends() == 0
    assert "mode_downgraded" not in terminal.all


def test_nothing_that_a_model_says_drives_the_terminal(person, folder):
    said = {
        "msg": "\x1b]0;gone\x07a\x1b[2Jb\r\u202ec 宽文字",
        "tool_calls": [{"name": "evil\x1b[2J", "arguments": {"x": "\x1b[2J"}}],
    }
    person.variables["MODEL"] = script(person.home, json.dumps(said), json.dumps({"msg": "\x1b[2Jend"}))
    with PseudoTerminal(person, "chat") as terminal:
        terminal.reads()
        told = terminal.types("go")
        assert "宽文字" in told
        assert "\\x1b[2Jend" in told
        terminal.types("/history")
        terminal.keys("/quit\n")
        assert terminal.ends() == 0
    assert not [each for each in ("\x1b]0;", "\x07", "\x1b[2J", "\u202e") if each in terminal.all]


@pytest.mark.skipif(
    "libedit" in (readline.__doc__ or ""), reason="this Python's editing knows no marked pastes"
)
def test_what_is_pasted_in_several_lines_is_one_message(person):
    """A terminal marks what is pasted if it is asked to; else each line of a log becomes a task."""
    person.variables["MODEL"] = script(person.home, "msg:Heard.", "msg:Heard again.")
    with PseudoTerminal(person, "chat") as terminal:
        assert "\x1b[?2004h" in terminal.reads()
        terminal.keys("\x1b[200~help me with this:\nread notes.txt\n你好\n\x1b[201~")
        terminal.reads("你好")
        assert "Heard." in terminal.types("")
        terminal.types("/quit", "to continue this session")
    said = person.json("sessions", "show", terminal_session(person))["messages"]
    asked = [each["content"] for each in said if each["role"] == "user"]
    assert asked == ["help me with this:\nread notes.txt\n你好"]


def test_every_command_of_the_table_is_carried_out(person):
    names = [name for name in slash_commands_for(Surface.terminal) if name != "quit"]
    done = piped(person, "".join(f"/{name}\n" for name in names) + "/QUIT\nnever said\n")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "there is no command /" not in done.stderr
    assert "never said" not in done.stdout + done.stderr
    for command in slash_commands_for(Surface.terminal).values():
        assert command.about in done.stdout


def test_what_is_no_command_is_told_and_a_path_is_a_message(person):
    done = piped(person, "/tool\n/undo it all\n/etc/hosts\n/history\n")
    assert "there is no command /tool; did you mean /tools?" in done.stderr
    assert "/undo takes no argument" in done.stderr
    said = done.stdout.partition("] user\n")[2]
    assert said.startswith("/etc/hosts\n")
    assert "/tool\n" not in done.stdout


def test_another_conversation_is_begun_with_its_first_words(person):
    done = piped(person, "what time is it?\n/new\n/history\nhi\n/history\n")
    assert "no messages yet" in done.stderr
    assert done.stdout.count("] user\n") == 1
    ways = [line for line in done.stderr.splitlines() if line.startswith("to continue this session: ")]
    assert len(set(ways)) == 2
    assert len(person.json("sessions", "list")) == 2


@pytest.mark.skipif("libedit" in (readline.__doc__ or ""), reason="libedit has other words for its keys")
def test_the_tab_key_completes_a_command(person):
    with PseudoTerminal(person, "chat") as terminal:
        terminal.reads()
        terminal.keys("/his\t\n")
        assert "no messages yet" in terminal.reads()


def test_the_arrow_key_brings_back_what_was_said_and_no_answer(person):
    with PseudoTerminal(person, "chat") as terminal:
        terminal.reads()
        terminal.types("ask me to choose between tea and coffee", until="[1 to 2] ")
        assert "3 is not one of the options" in terminal.types("3", until="[1 to 2] ")
        terminal.types("1")
        terminal.keys("\x1b[A\n")
        terminal.reads("[1 to 2] ")


def test_no_color_is_heeded(person):
    person.variables["NO_COLOR"] = "1"
    with PseudoTerminal(person, "chat") as terminal:
        terminal.reads()
        assert "\x1b[" not in terminal.types("read a.txt").replace("\x1b[?2004h", "").replace(
            "\x1b[?2004l", ""
        )


def test_a_model_is_chosen_from_those_that_are_listed(person):
    other = script(person.home, "msg:I am the other one.")
    person.variables["MODELS"] = other
    done = piped(person, f"/model nobody\n/model {other}\nhi\n/model demo\nwhat time is it?\n/model\n")
    assert "'nobody' is not allowed here" in done.stderr
    assert "I am the other one." in done.stdout
    assert "It is 20" in done.stdout
    assert done.stdout.endswith(f"model     demo\nlisted    demo, {other}\n")


def test_an_agent_of_the_workspace_is_talked_with(person, folder):
    person("init")
    agents = person.home / "workspace" / "agents"
    (agents / "reader.md").write_text(
        "---\ndescription: Reads.\ntools.denied_tools: write_file\n---\nRead.\n"
    )
    opened = ("--mode", "coding", "--root", "project")
    done = piped(person, "write x to x.txt\n/why\n", *opened, "--agent", "reader")
    assert "it is on the list of denied tools in the agent's policy" in done.stdout
    assert "decided   by the agent's policy" in done.stdout
    assert not (folder / "x.txt").exists()
    assert "did you mean reader?" in one_line_error(person, "chat", "--agent", "raeder")


def test_a_pipe_is_a_conversation_without_prompts(person):
    done = piped(person, "ask me whether it rains\nperhaps\ny\n\n  \n\x00\x1b[2Jgarbage\n/mode\n")
    assert done.returncode == 0
    assert "you>" not in done.stdout
    assert "You answered: yes" in done.stdout
    assert "I did not understand that." in done.stdout
    assert "mode      chat_safe" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    cancelled = piped(person, "ask me whether it rains\n")
    assert cancelled.returncode == 0
    assert "cancelled" in cancelled.stderr


@each_row(
    ("arguments", "code"),
    [
        (("--session", "s_nobody"), 1),
        (("--model", "nobody"), 1),
        (("--agent", "nobody"), 1),
        (("--mode", "nothing"), 2),
        (("--root", "nowhere"), 2),
        (("--session", "s_1", "--agent", "reader"), 2),
    ],
)
def test_what_is_not_there_is_told_before_anybody_writes_a_word(person, arguments, code):
    told = one_line_error(person, "chat", *arguments, expect=code)
    assert any(word.lstrip("-") in told for word in arguments)
