"""`interlock tool`: what there is, and one call through the same gates, runner and log as any other."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from interlock.cli.exits import Exit
from interlock.cli.output import AsJson, note, print_json, print_line, print_table, print_text
from interlock.cli.runtime import mode_argument, opened_runtime, root_arguments
from interlock.config.modes import ToolMode

if TYPE_CHECKING:
    from interlock.tools.result import ToolFailure

app = App(name="tool", help="List the tools, or call one through the gates.", help_format="plaintext")


@app.command(name="list")
async def list_tools(*, mode: str | None = None, json: AsJson = False) -> int:
    """List the tools, all of them or those of one mode."""
    chosen = mode_argument(mode) if mode else None
    async with opened_runtime(opened=[chosen] if chosen else ()) as runtime:
        exposed = (await runtime.authority(chosen)).exposed if chosen else None
        tools = [entry.tool for entry in runtime.registry if exposed is None or entry.tool.name in exposed]
    if json:
        print_json(
            [
                {
                    "name": tool.name,
                    "aliases": list(tool.aliases),
                    "group": tool.group.value,
                    "effect": tool.effect.value,
                    "modes": sorted(tool.allowed_modes),
                    "description": tool.description,
                }
                for tool in tools
            ]
        )
    else:
        rows = [
            [
                tool.name,
                ", ".join(mode for mode in ToolMode if mode in tool.allowed_modes),
                tool.description,
            ]
            for tool in tools
        ]
        print_table(["tool", "modes", "what it does"], rows)
    return Exit.ok


@app.command
async def call(
    name: str,
    *,
    args: str = "{}",
    mode: str | None = None,
    root: Annotated[tuple[Path, ...], Parameter(consume_multiple=False, negative=())] = (),
    session: str | None = None,
    ask: Annotated[bool, Parameter(negative=())] = False,
    json: AsJson = False,
) -> int:
    """Call one tool and print its result.

    Parameters
    ----------
    name
        The tool's name or one of its aliases.
    args
        Its arguments as a JSON object.
    mode
        The mode to call it in; it is opened for this process alone.
    root
        A folder the tool may work in, instead of the configured ones.
    session
        Continue this session, in its own mode unless --mode is given; otherwise the call gets a new one.
    ask
        Somebody will answer: a tool that asks puts its question, prints the question's id and returns.
    """
    from interlock.events.chain import new_id
    from interlock.gates.gate import ToolCall
    from interlock.gates.runner import CallContext

    chosen = mode_argument(mode) if mode else None
    opened = [chosen] if chosen else []
    async with opened_runtime(opened=opened, roots=root_arguments(root)) as runtime:
        if session is None:
            created = await runtime.sessions.create(
                opened_by="cli", title=f"tool call {name}", mode=chosen or ToolMode.chat_safe
            )
            session = created.id
        else:
            await runtime.sessions.get(session)
        mode_now = chosen or await runtime.sessions.get_mode(session)
        authority = await runtime.authority(mode_now, someone_can_answer=ask)
        result = await runtime.runner.call(
            ToolCall(f"call_{new_id()[-12:]}", name, args), authority, CallContext(session)
        )
        # Tools that only an answer is missing for.
        asking = set((await runtime.authority(mode_now)).exposed) - set(authority.exposed)
    if json:
        print_json({"session_id": session, **result.as_dict()})
    elif result.failure is None:
        print_text(result.stdout)
    else:
        _print_failure(result.failure)
    note(f"recorded  interlock events tree {session}")
    if result.failure is None:
        return Exit.ok
    if result.failure.tool_name in asking:
        return Exit.nobody_to_answer
    return Exit.denied if result.failure.is_denial else Exit.failed


def _print_failure(failure: "ToolFailure") -> None:
    print_line(f"{'denied' if failure.is_denial else 'failed'}    {failure.message}")
    print_line(f"code      {failure.error_code.value} ({failure.error_class.value})")
    print_line(f"next      {failure.next_action}")
