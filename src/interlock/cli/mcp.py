"""`interlock mcp`: servers of foreign tools. At this command line the person is the operator."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from interlock.cli.exits import Exit
from interlock.cli.output import AsJson, note, print_json, print_line, print_table, print_text
from interlock.cli.runtime import opened_runtime

app = App(
    name="mcp",
    help="Add MCP servers, look at what they offer, and class their tools.",
    help_format="plaintext",
)

Flag = Annotated[bool, Parameter(negative=())]
Each = Parameter(consume_multiple=False, negative=())
# Of a description in a table; with the tool's name, all of it is shown.
MAX_BRIEF_CHARS = 120
_STATES = {
    "classed": "can be used as classed",
    "unclassed": "nobody has classed it",
    "changed": "CHANGED since it was classed: look at it, and class it again",
    "unusable": "cannot be used",
    "gone": "was classed, and is not offered any more",
}


@app.command
async def add(
    server: str,
    *command: str,
    url: str = "",
    env: Annotated[tuple[str, ...], Each] = (),
    header: Annotated[tuple[str, ...], Each] = (),
    readable: Annotated[tuple[Path, ...], Each] = (),
    roots: str = "read",
    network: Flag = False,
    json: AsJson = False,
) -> int:
    """Add a server: a command that is run in the sandbox, or an address. Nothing of it can be used yet.

    Parameters
    ----------
    server
        What to call it: 1 to 20 of a-z, 0-9 and -. Its tools will be called SERVER__TOOL.
    command
        The command and its arguments, after --.
    url
        Its address, instead of a command: https, or http on this machine.
    env
        A variable for the command: NAME=VALUE, and for secrets NAME=env:VARIABLE or NAME=file:/PATH.
    header
        A header for the address, given like --env.
    readable
        A further folder or file that the command may read, such as where it is installed.
    roots
        What of the opened folders the command reaches: none, read or write.
    network
        Let the command use the network, as far as the operator opened it to commands.
    """
    from interlock.wiring import foreign, local_person

    wish = foreign.Wish(
        id=server,
        command=command,
        url=url,
        environment=env,
        headers=header,
        readable=readable,
        roots=roots,
        network=network,
    )
    async with opened_runtime(sandboxed=True) as runtime:
        told = await foreign.add(runtime, wish, who=local_person())
    if json:
        print_json(told)
        return Exit.ok
    print_line(f"added     {server}, over {told['transport']}")
    print_line(f"modes     its tools can be classed for {', '.join(told['modes'])}")
    if told["unreadable"]:
        note(
            f"warning   the sandbox will not let it read {told['unreadable']}; remove it, and add it again"
        )
        note("          with --readable FOLDER")
    for word in _relative_files(command):
        note(f"warning   {word} is a relative path, and the server runs in a folder of its own;")
        note("          remove it, and add it again with its whole path")
    _note_state(told)
    return Exit.ok


def _relative_files(command: tuple[str, ...]) -> list[str]:
    """What is there from here, and will not be from there. A program is looked for on the path."""
    return [word for word in command[1:] if not word.startswith(("/", "-")) and Path(word).is_file()]


@app.command(name="list")
async def list_servers(*, json: AsJson = False) -> int:
    """List the servers, whether they may be used, and how their tools are classed."""
    from interlock.wiring import foreign

    async with opened_runtime(sandboxed=True) as runtime:
        told = await foreign.list_servers(runtime)
    if json:
        print_json(told)
        return Exit.ok
    if not told["servers"]:
        note("there are no MCP servers; add one: interlock mcp add NAME -- COMMAND")
        return Exit.ok
    rows = [
        [
            each["id"],
            each["url"] or " ".join(each["command"]),
            ", ".join(f"{count} {state}" for state, count in each["tools"].items()) or "not looked at yet",
            each["closed"] or each["unavailable"] or _use(each["tools"]),
        ]
        for each in told["servers"]
    ]
    print_table(["server", "what it is", "tools", "state"], rows)
    return Exit.ok


@app.command
async def inspect(server: str, tool: str | None = None, *, json: AsJson = False) -> int:
    """Start a server, ask what it offers, and show it; with a tool's name, all of that tool.

    Parameters
    ----------
    server
        The server's id.
    tool
        The name of one of its tools.
    """
    from interlock.wiring import foreign

    async with opened_runtime(sandboxed=True) as runtime:
        told = await foreign.inspect(runtime, server, is_operator=True)
    offered = [each for each in told["offered"] if tool is None or tool in {each["tool"], each["name"]}]
    if json:
        print_json(told | {"offered": offered})
    elif tool is not None:
        for each in offered:
            _print_tool(each)
    else:
        print_line(f"server    {server} calls itself {told['calls_itself'] or '(nothing)'}")
        if told["instructions"]:
            note(f"it would like models to be told (they are not): {told['instructions']}")
        rows = [
            [each["tool"], _class_text(each), each["suggested_effect"], each["hash"][:12], _brief(each)]
            for each in offered
        ]
        print_table(["tool", "class", "its own hint", "hash", "what it says of itself"], rows)
        _note_state(told)
    if tool is not None and not offered:
        note(f"{server} offers no tool '{tool}'")
        return Exit.failed
    return Exit.ok


@app.command
async def allow(
    server: str,
    tool: str,
    *,
    effect: str,
    modes: str,
    group: str = "mcp",
    hash: Annotated[str, Parameter(name="--hash")],  # noqa: A002 - the word for it
    vouch: Flag = False,
    json: AsJson = False,
) -> int:
    """Class a tool as it was last seen: what it does, and in which modes it may be used.

    Parameters
    ----------
    server
        The server's id.
    tool
        The tool's name.
    effect
        read, write, exec or special. Only what reads may be repeated after a crash.
    modes
        The modes it may be used in, separated by commas.
    group
        What it is about, for display.
    hash
        The hash of what you looked at, as inspect shows it, or at least its first 12 characters. It is
        refused where the tool is another one now.
    vouch
        Class it for a mode although no wall keeps its server to that mode, on your word.
    """
    from interlock.wiring import foreign, local_person

    wish = foreign.ClassWish(
        effect=effect, modes=tuple(modes.split(",")), group=group, hash=hash, is_vouched=vouch
    )
    async with opened_runtime(sandboxed=True) as runtime:
        told = await foreign.allow(runtime, server, tool, wish, who=local_person(), is_operator=True)
    if json:
        print_json(told)
        return Exit.ok
    _print_tool(told["tool"])
    print_line(f"classed   {told['tool']['name']}: {_class_text(told['tool'])}")
    print_line(
        f"pinned    to its definition {told['tool']['hash'][:12]}; another one must be classed again"
    )
    _note_state(told["server"])
    return Exit.ok


@app.command
async def remove(server: str, tool: str | None = None, *, json: AsJson = False) -> int:
    """Remove a server with the classes of its tools; with a tool's name, only that tool's class.

    Parameters
    ----------
    server
        The server's id.
    tool
        The tool whose class is taken away.
    """
    from interlock.wiring import foreign, local_person

    async with opened_runtime() as runtime:
        told = await foreign.remove(runtime, server, tool, who=local_person())
    if json:
        print_json(told)
    else:
        print_line(f"removed   {server}" if tool is None else f"removed   the class of {server} {tool}")
    return Exit.ok


def _class_text(tool: dict[str, Any]) -> str:
    given = tool["class"]
    if tool["state"] == "classed":
        vouched = ", vouched for" if given["vouched"] else ""
        return f"{given['effect']} in {', '.join(given['modes'])}{vouched}"
    return f"{_STATES[tool['state']]}{': ' + tool['problem'] if tool['problem'] else ''}"


def _use(tools: dict[str, int]) -> str:
    """By the states of its tools, where nothing speaks against the server itself."""
    if tools.get("classed"):
        return "may be used"
    if tools.get("changed"):
        return "nothing of it may be used: what was classed has CHANGED; look at it, and class it again"
    return "nothing of it may be used: no tool is classed"


def _brief(tool: dict[str, Any]) -> str:
    text: str = tool["description"]
    return text if len(text) <= MAX_BRIEF_CHARS else f"{text[: MAX_BRIEF_CHARS - 1]}…"


def _print_tool(tool: dict[str, Any]) -> None:
    import orjson

    for label, value in (
        ("tool", tool["tool"]),
        ("name here", tool["name"]),
        ("class", _class_text(tool)),
        ("hash", tool["hash"]),
        ("hints", ", ".join(f"{name}={value}" for name, value in tool["hints"].items()) or "none"),
        ("says", tool["description"]),
    ):
        print_line(f"{label:<9} {value}")
    print_line("schema")
    print_text(orjson.dumps(tool["schema"], option=orjson.OPT_INDENT_2).decode())


def _note_state(server: dict[str, Any]) -> None:
    """What is missing before an agent can use it, and the commands for that."""
    if server["unavailable"]:
        note(f"warning   it cannot be used here: {server['unavailable']}")
    for step in server["next"]:
        note(f"next      {step}")
