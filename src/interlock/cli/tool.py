"""`interlock tool`: lists tools, and calls one through the same gates, runner and log as an agent."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter, validators

from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import AsJson, note, print_json, print_line, print_table, print_text
from interlock.cli.runtime import open_cli_runtime, parse_mode_argument, resolve_root_arguments
from interlock.config.modes import ToolMode

if TYPE_CHECKING:
    from interlock.cli.tool_call_session import CompletedToolCall, ToolCallSession
    from interlock.policy.authority import Authority
    from interlock.tools.result import ToolFailure, ToolResult

app = App(name="tool", help="List the tools, or call one through the gates.", help_format="plaintext")


@app.command(name="list")
async def list_tools(
    *,
    mode: str | None = None,
    root: Annotated[tuple[Path, ...], Parameter(consume_multiple=False, negative=())] = (),
    json: AsJson = False,
) -> int:
    """List all tools, or those that can be used in one mode.

    Parameters
    ----------
    mode
        Only tools that can be used in this mode now.
    root
        A directory to work in, instead of the configured ones.
    """
    chosen = parse_mode_argument(mode) if mode else None
    async with open_cli_runtime(
        opened=[chosen] if chosen else (), roots=resolve_root_arguments(root), sandboxed=True
    ) as runtime:
        await runtime.mcp.refresh()
        authority = await runtime.authority(chosen) if chosen else None
        tools = [
            entry.tool
            for entry in runtime.registry
            if authority is None or entry.tool.name in authority.exposed
        ]
        modes = {tool.name: runtime.registry.get_effective_modes(tool.name) for tool in tools}
    if json:
        print_json(
            [
                {
                    "name": tool.name,
                    "aliases": list(tool.aliases),
                    "group": tool.group.value,
                    "effect": tool.effect.value,
                    "modes": sorted(modes[tool.name]),
                    "description": tool.description,
                }
                for tool in tools
            ]
        )
    else:
        rows = [
            [
                tool.name,
                ", ".join(mode for mode in ToolMode if mode in modes[tool.name]),
                tool.description,
            ]
            for tool in tools
        ]
        print_table(["tool", "modes", "description"], rows)
        if authority is not None:
            _note_missing(authority)
    return ExitCode.ok


def _note_missing(authority: "Authority") -> None:
    """Print the tools that the mode allows but another layer denies, with the reason."""
    for name, failure in authority.failures.items():
        if failure.error_code.value != "MODE_DENIED":
            note(f"not now   {name}: {failure.message.removeprefix(f'{name} is ')}")


@app.command
async def call(
    name: str | None = None,
    *,
    args: str = "{}",
    mode: str | None = None,
    root: Annotated[tuple[Path, ...], Parameter(consume_multiple=False, negative=())] = (),
    session: str | None = None,
    timeout_seconds: Annotated[float | None, Parameter(validator=validators.Number(gt=0))] = None,
    ask: Annotated[bool, Parameter(negative=())] = False,
    jsonl: Annotated[bool, Parameter(negative=())] = False,
    json: AsJson = False,
) -> int:
    """Call one tool and print its result; with --jsonl, call one tool for each line of stdin.

    Parameters
    ----------
    name
        The tool's name or one of its aliases.
    args
        Its arguments as a JSON object.
    mode
        The mode for the call; it is opened for this process only.
    root
        A directory the tool may work in, instead of the configured ones.
    session
        Continue this session, in its own mode unless --mode is given. Default: a new session.
    timeout_seconds
        Time limit for the call in seconds, up to the limit of the policy.
    ask
        Allow questions: a tool that asks one prints the question's id and returns.
    jsonl
        Read calls {"id", "name", "arguments"} from stdin, one per line, and print {"id", "result"}
        for each, in order and in one session. A line may have its own "timeout_seconds".
    """
    from interlock.cli.tool_call_session import call_json_lines, open_tool_call_session

    _refuse_contradictions(name, args, jsonl=jsonl)
    chosen = parse_mode_argument(mode) if mode else None
    title = "tool calls" if jsonl else f"tool call {name}"
    async with open_tool_call_session(
        chosen, resolve_root_arguments(root), session, title, ask=ask
    ) as calls:
        if jsonl:
            await call_json_lines(calls, timeout_seconds)
            done, code = None, ExitCode.ok
        else:
            done = calls.with_read_first_hint(
                await calls.call(str(name), args, timeout_seconds), args, _options(mode, root)
            )
            code = await _exit_of(done, calls)
    if done is not None:
        _print_done(done, calls.session_id, json=json)
        if done.result.failure and not json and (advice := calls.advice(str(name), done.result.failure)):
            note(advice)
    note(f"recorded  interlock events tree {calls.session_id}")
    return code


def _options(mode: str | None, root: tuple[Path, ...]) -> list[str]:
    """The options that another call in the same session needs as well."""
    given = ["--mode", mode] if mode else []
    return given + [word for folder in root for word in ("--root", str(folder))]


def _refuse_contradictions(name: str | None, args: str, *, jsonl: bool) -> None:
    from interlock.core.errors import BadUsage

    if jsonl and (name is not None or args != "{}"):
        raise BadUsage("--jsonl reads names and arguments from stdin; omit them on the command line")
    if not jsonl and name is None:
        raise BadUsage("name the tool to call, or use --jsonl to read calls from stdin")


async def _exit_of(done: "CompletedToolCall", calls: "ToolCallSession") -> ExitCode:
    """The exit code.

    A call that fails only because no one can answer gets its own: --ask would allow it.
    """
    if done.result.failure is None:
        return ExitCode.ok
    if await calls.needs_only_answerer(done.tool_name):
        return ExitCode.nobody_to_answer
    return ExitCode.denied if done.result.failure.is_denial else ExitCode.failed


def _print_done(done: "CompletedToolCall", session_id: str, *, json: bool) -> None:
    result = done.result
    if json:
        # The id is for undo. A refusal has only the fields that a model receives.
        identity = {"call_id": done.call_id} if result.ok else {}
        print_json({"session_id": session_id, **identity, **result.as_dict()})
    elif result.failure is None:
        _print_output(result)
    else:
        _print_failed(result, result.failure)


def _print_output(result: "ToolResult") -> None:
    if result.stdout:
        print_text(result.stdout.removesuffix("\n"))
    else:
        note("empty     the result is empty")
    if result.stderr:
        note(result.stderr.removesuffix("\n"))
    if result.next_page_cursor:
        note(f"more      use --args with cursor {result.next_page_cursor}")
    elif result.truncated_lines or result.truncated_bytes:
        note("more      the result is truncated")


def _print_failed(result: "ToolResult", failure: "ToolFailure") -> None:
    if result.stdout:
        print_text(result.stdout.removesuffix("\n"))
    if result.stderr:
        note(result.stderr.removesuffix("\n"))
    print_line(f"{'denied' if failure.is_denial else 'failed'}    {failure.message}")
    print_line(f"code      {failure.error_code.value} ({failure.error_class.value})")
    print_line(f"next      {failure.next_action}")
