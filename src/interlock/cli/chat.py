"""`interlock chat`: a conversation in the terminal."""

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from interlock.cli.command_line_session import RootOptions, open_chat_client, parse_chat_options
from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import local_time, note, print_line, print_text
from interlock.cli.runtime import parse_mode_argument
from interlock.config.modes import ToolMode
from interlock.core.errors import InterlockError, InvalidAnswer, ModeNotOpen, NothingToUndo
from interlock.core.text import escape_control_characters
from interlock.policy.verdict import layer_name
from interlock.sessions.slash_commands import Surface, parse_slash_command, slash_commands_for

if TYPE_CHECKING:
    from interlock.channels.terminal.local_session import LocalSession
    from interlock.channels.terminal.view import TerminalView
    from interlock.cli.command_line_session import CommandLineSession
    from interlock.questions.rows import Question
    from interlock.runtime.task_rows import Task

QUIT_COMMANDS = ("/quit", "/exit")
PROMPT = "you> "
# Of a terminal, which gives one line at a time.
_LONGEST_LINE = 4096


def chat(
    *,
    mode: str | None = None,
    root: RootOptions = (),
    session: str | None = None,
    agent: str | None = None,
    model: str | None = None,
) -> int:
    """Chat with an agent. Type /help for commands.

    Parameters
    ----------
    mode
        The mode to work in; it is opened for this process only.
    root
        A directory to work in, instead of the configured ones.
    session
        Continue this session instead of starting a new one.
    agent
        Chat with this agent of the workspace.
    model
        The model to use, one of the configured models.
    """
    from interlock.channels.terminal.view import TerminalView, standard_writer

    given = parse_chat_options(mode, root, session, agent, model)
    view = TerminalView(standard_writer())
    with asyncio.Runner() as runner:
        opening = open_chat_client(given, view.show, usual_log_level="error")
        command_line_session = runner.run(opening.__aenter__())
        try:
            _Chat(runner, command_line_session, view).converse()
        finally:
            runner.run(opening.__aexit__(None, None, None))
        if command_line_session.session_id is not None:
            note(f"to continue this session: {command_line_session.resume_command()}")
    return ExitCode.ok


class _Chat:
    """The read loop. Of what is typed while a task runs, `/steer TEXT` goes to it; the rest waits."""

    def __init__(
        self, runner: asyncio.Runner, command_line_session: "CommandLineSession", view: "TerminalView"
    ) -> None:
        self._run = runner.run
        self._command_line_session = command_line_session
        self._view = view
        # What was typed while a task ran: messages to send, and tasks of those that steer.
        self._typed: deque[str] = deque()
        self._steering: list[Task] = []
        self._commands: dict[str, Callable[[str], Coroutine[None, None, None]]] = {
            "help": self._help,
            "mode": self._mode,
            "tools": self._tools,
            "why": self._why,
            "model": self._model,
            "history": self._history,
            "compact": self._compact,
            "undo": self._undo,
            "new": self._new,
        }

    def converse(self) -> None:
        """Read and handle lines until the person quits."""
        self._run(self._greet())
        self._guarded(self._resume)
        while (words := self._next_line()).lower() not in QUIT_COMMANDS:
            if words:
                self._guarded(lambda: self._take(words))

    def _next_line(self) -> str:
        if not self._typed:
            return _read_line()
        note(f"{PROMPT}{self._typed[0]}")
        return self._typed.popleft()

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step; print errors and interrupts instead of ending the chat."""
        self._view.begin_task()
        try:
            step()
        except InterlockError as error:
            self._view.end_line()
            note(str(error))
        except KeyboardInterrupt:
            note("\ninterrupted")

    def _take(self, words: str) -> None:
        written = parse_slash_command(words, Surface.terminal)
        if written is None:
            self._say(words)
        elif written.name == "build":
            self._build()
        elif written.name == "steer":
            self._steer(written.rest)
        else:
            self._run(self._commands[written.name](written.rest))

    def _say(self, words: str) -> None:
        local_session = self._run(self._command_line_session.local_session(words))
        self._see_through(self._run(self._hearing(local_session, local_session.say(words))))
        self._end_steering(local_session)

    def _steer(self, words: str) -> None:
        """Nothing runs here: for a task of another process, or a message like any other."""
        if not words:
            note("write the message after the command: /steer TEXT")
            return
        local_session = self._run(self._command_line_session.local_session(words))
        self._steering.append(self._run(local_session.steer(words)))
        self._end_steering(local_session)

    def _end_steering(self, local_session: "LocalSession") -> None:
        """Work on messages that came too late to steer, and follow the task that got the others."""
        if not self._steering:
            return
        while self._steering:
            task = self._run(local_session.present(self._steering.pop(0)))
            if not task.status.is_end:
                self._see_through(self._run(local_session.go_on(task)))
        if (task_at_work := self._run(local_session.unfinished())) is not None:
            self._see_through(self._run(local_session.go_on(task_at_work)))

    async def _hearing(self, local_session: "LocalSession", work: "Coroutine[None, None, Task]") -> "Task":
        """Read what a person types at a terminal while a task runs, line by line."""
        if not sys.stdin.isatty():
            return await work
        loop, stdin = asyncio.get_running_loop(), sys.stdin.fileno()
        steering: set[asyncio.Task[None]] = set()

        def read() -> None:
            line = os.read(stdin, _LONGEST_LINE).decode(errors="replace")
            if not line:
                # Ctrl-D, for when the task has ended.
                self._typed.append(QUIT_COMMANDS[0])
            elif words := line.strip():
                steering.add(loop.create_task(self._take_meanwhile(local_session, words)))

        loop.add_reader(stdin, read)
        try:
            return await work
        finally:
            loop.remove_reader(stdin)
            await asyncio.gather(*steering)

    async def _take_meanwhile(self, local_session: "LocalSession", words: str) -> None:
        try:
            written = parse_slash_command(words, Surface.terminal)
            if written is None or written.name != "steer" or not written.rest:
                self._typed.append(words)
                return
            self._steering.append(await local_session.steer(written.rest))
            note("the running task gets this at its next turn")
        except InterlockError as error:
            note(str(error))

    def _resume(self) -> None:
        """Resume the unfinished task of a continued session."""
        if self._command_line_session.session_id is None:
            return
        local_session = self._run(self._command_line_session.local_session())
        task = self._run(local_session.unfinished())
        if task is not None:
            note(f"resuming task {task.id} ({task.status})")
            waits = self._run(local_session.open_question(task)) is not None
            self._see_through(task if waits else self._run(local_session.go_on(task)))

    def _see_through(self, task: "Task") -> None:
        """Prompt for each question the task asks, until the task ends."""
        local_session = self._run(self._command_line_session.local_session())
        while (question := self._run(local_session.open_question(task))) is not None:
            answer = prompt_for_question(question)
            self._view.begin_task()
            if answer is None:
                task = self._run(local_session.cancel(task))
                break
            try:
                task = self._answered(local_session, question, answer)
            except InvalidAnswer as error:
                note(str(error))
        self._view.end_line()
        if task.status.value == "cancelled":
            # A terminal has just shown ^C on this line.
            note("\ncancelled" if sys.stdin.isatty() else "cancelled")
        elif task.reason and not self._view.told_end:
            note(task.reason)

    def _answered(
        self, local_session: "LocalSession", question: "Question", answer: "Mapping[str, Any]"
    ) -> "Task":
        """Answer a question. An approved plan can be built at once, if the person confirms."""
        if answer.get("decision") != "approve" or question.mode != ToolMode.plan:
            return self._run(local_session.answer(question, answer))
        if not self._command_line_session.agent_runtime.plans.can_build(question):
            note(f"to build it: {self._command_line_session.resume_command(ToolMode.coding)}, then /build")
        elif ask_line("[b to build it now in coding mode, Enter to skip] ").strip().lower()[:1] == "b":
            return self._run(
                local_session.run_until_idle(lambda: self._command_line_session.build(question, answer))
            )
        return self._run(local_session.answer(question, answer))

    def _build(self) -> None:
        session = self._command_line_session.session_id
        plan = (
            self._run(self._command_line_session.agent_runtime.plans.approved(session)) if session else None
        )
        if plan is None:
            note("no plan to build: the newest plan of this session must be approved")
            return
        self._show_plan(plan)
        local_session = self._run(self._command_line_session.local_session())
        self._see_through(
            self._run(local_session.run_until_idle(lambda: self._command_line_session.build(plan)))
        )

    def _show_plan(self, question: "Question") -> None:
        from interlock.questions.rendering import question_text

        print_text(question_text(question.read_widget()))
        by = f" by {question.closed_by}" if question.closed_by else ""
        note(f"building this plan, approved{by} at {local_time(question.closed_us or question.asked_us)}")

    # -- slash commands --

    async def _greet(self) -> None:
        from interlock.models.provider_factory import DEMO

        mode, model = await self._command_line_session.mode(), await self._command_line_session.model()
        note(f"{model} model, {mode} mode. Type /help for commands, /quit to exit.")
        if model == DEMO:
            note(
                'This is a small built-in demo, not a language model. Type "help" to see what '
                "it understands."
            )
        stored = await self._command_line_session.stored_mode()
        if stored not in (None, mode):
            note(
                f"the session is in {stored} mode, which is not open here; to open it: "
                f"{self._command_line_session.resume_command(stored)}"
            )

    async def _help(self, _rest: str) -> None:
        for command in slash_commands_for(Surface.terminal).values():
            print_line(f"{f'/{command.name} {command.takes}':<16}{command.about}")
        print_line("Ctrl-C          Cancel the running task and stay in the chat")

    async def _new(self, _rest: str) -> None:
        if self._command_line_session.session_id is not None:
            note(f"to continue this session: {self._command_line_session.resume_command()}")
        self._command_line_session.start_new_session()
        await self._greet()

    async def _mode(self, rest: str) -> None:
        runtime = self._command_line_session.agent_runtime.runtime
        if rest and not await self._switched(parse_mode_argument(rest)):
            return
        open_modes = [mode.value for mode in ToolMode if mode in runtime.authority_inputs.open_modes]
        print_line(f"mode      {await self._command_line_session.mode()}")
        print_line(f"open      {', '.join(open_modes)}")
        if len(open_modes) == 1:
            command = self._command_line_session.resume_command(ToolMode.chat)
            note(f"to open another mode, start the chat with it: {command}")

    async def _switched(self, mode: ToolMode) -> bool:
        try:
            await self._command_line_session.switch_mode(mode)
        except ModeNotOpen:
            command = self._command_line_session.resume_command(mode)
            note(f"{mode} mode is not open here; to open it, exit and run: {command}")
            return False
        return True

    async def _tools(self, _rest: str) -> None:
        authority = await self._command_line_session.authority()
        for name in authority.exposed:
            print_line(f"yes       {name}")
        for failure in authority.failures.values():
            print_line(f"no        {failure.message}")

    async def _why(self, _rest: str) -> None:
        from interlock.gates.explain import next_action_now

        denial = await self._command_line_session.last_denial()
        if denial is None:
            note("no tool call was denied in this session")
            return
        print_line(f"denied    {denial['error']}")
        print_line(f"code      {denial['error_code']} in {denial['mode']} mode")
        print_line(f"decided   by {layer_name(denial['layer'])}")
        print_line(f"next      {next_action_now(denial, await self._command_line_session.authority())}")
        note(f"more      interlock policy explain {denial['tool_name']} --mode {denial['mode']}")

    async def _model(self, rest: str) -> None:
        if rest:
            await self._command_line_session.choose_model(rest)
        print_line(f"model     {await self._command_line_session.model()}")
        print_line(f"listed    {', '.join(self._command_line_session.agent_runtime.models.names)}")

    async def _history(self, _rest: str) -> None:
        messages = await self._command_line_session.history()
        if not messages:
            note("no messages yet")
        for message in messages:
            print_line(f"[{local_time(message.time_us)}] {message.role}")
            print_text(message.content)

    async def _compact(self, _rest: str) -> None:
        if self._command_line_session.session_id is None:
            note("no messages yet")
            return
        await self._command_line_session.request_compaction()
        note("older messages will be summarised for the model with your next message")

    async def _undo(self, _rest: str) -> None:
        from interlock.cli.undo import print_report

        runtime = self._command_line_session.agent_runtime.runtime
        for task in await self._command_line_session.tasks():
            with suppress(NothingToUndo):
                print_report(
                    await runtime.undo.revert(task.id, who=self._command_line_session.person), runtime
                )
                return
        note("no file changes to undo")


def _read_line() -> str:
    try:
        return ask_line(PROMPT).strip()
    except EOFError:
        if sys.stdin.isatty():
            note("")
        return QUIT_COMMANDS[0]
    except KeyboardInterrupt:
        note("\n(type /quit to exit)")
        return ""


def prompt_for_question(question: "Question") -> Mapping[str, Any] | None:
    """Prompt for an answer; None if the person declines."""
    from interlock.channels.answer_dialogue import prompt_for_answer
    from interlock.questions.rendering import question_text

    widget = question.read_widget()
    print_text(question_text(widget))
    try:
        return prompt_for_answer(widget, ask_line)
    except (EOFError, KeyboardInterrupt):
        return None


def ask_line(prompt: str) -> str:
    """Read one line. The prompt is printed only on a terminal."""
    if not sys.stdin.isatty():
        # A program at the other end of a pipe waits for the question before it answers.
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")
    with suppress(ImportError):
        import readline  # that alone makes the line editable

        # A multi-line paste is one message. Python turns this off for its own prompt.
        readline.parse_and_bind("set enable-bracketed-paste on")
        # Answers to questions do not belong in the history.
        readline.set_auto_history(prompt == PROMPT)
        readline.set_completer(_completed)
        readline.set_completer_delims(" \t\n")
        readline.parse_and_bind("tab: complete")
    # The prompt may contain text of the question.
    reasons, newline, last = escape_control_characters(prompt, lines=True).rpartition("\n")
    if newline:
        note(reasons)
    return input(last)


def _completed(word: str, number: int) -> str | None:
    """Complete a command for readline: the `number`-th match for `word`."""
    ways = [f"/{name} " for name in slash_commands_for(Surface.terminal)] if word.startswith("/") else []
    fitting = [way for way in ways if way.startswith(word)]
    return fitting[number] if number < len(fitting) else None
