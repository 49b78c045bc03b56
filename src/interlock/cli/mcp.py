"""`interlock mcp`: servers of foreign tools. The person at this command line is the operator."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import AsJson, note, print_json, print_line, print_table, print_text
from interlock.cli.runtime import open_cli_runtime
from interlock.core.errors import BadUsage

app = App(
    name="mcp",
    help="Add and inspect MCP servers, and classify their tools.",
    help_format="plaintext",
)

Flag = Annotated[bool, Parameter(negative=())]
Each = Parameter(consume_multiple=False, negative=())
# Characters of a description shown in a table; with the tool's name given, all of it is shown.
MAX_BRIEF_CHARS = 120
_STATES = {
    "classed": "usable as classified",
    "unclassed": "Not reviewed yet",
    "changed": "CHANGED since it was classified: review it and classify it again",
    "unusable": "not usable",
    "gone": "classified, but no longer offered",
}
# The parts of a definition, in a diff.
_FIELDS = {"hints": "annotations", "output_schema": "schema of its result"} | {
    name: name for name in ("title", "description", "schema")
}
# Hints by what they say in a table; the others say nothing that matters for a class.
_CLAIMS = {
    ("readOnlyHint", True): "read-only",
    ("readOnlyHint", False): "not read-only",
    ("destructiveHint", True): "destructive",
    ("destructiveHint", False): "not destructive",
    ("openWorldHint", True): "reaches other systems",
    ("openWorldHint", False): "reaches no other systems",
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
    """Add a server: a command to run in the sandbox, or a URL. Its tools must be classified before use.

    Parameters
    ----------
    server
        The server's id: 1 to 20 characters of a-z, 0-9 and -. Its tools are named SERVER__TOOL.
    command
        The command and its arguments, after --.
    url
        The server's URL, instead of a command: https, or http on this machine.
    env
        A variable for the command: NAME=VALUE; for secrets NAME=env:VARIABLE or NAME=file:/PATH.
    header
        An HTTP header for the URL, in the form of --env.
    readable
        An additional directory or file that the command may read, such as its installation directory.
    roots
        The command's access to the opened directories: none, read or write.
    network
        Let the command use the network, if the operator allows it for commands.
    """
    from interlock.gates.mcp_administration import AddServerRequest
    from interlock.wiring import local_actor

    request = AddServerRequest(
        id=server,
        command=command,
        url=url,
        environment=env,
        headers=header,
        readable=readable,
        roots=roots,
        network=network,
    )
    async with open_cli_runtime(sandboxed=True) as runtime:
        told = await runtime.mcp_servers.add(request, who=local_actor())
    if json:
        print_json(told)
        return ExitCode.ok
    print_line(f"added     {server}, over {told['transport']}")
    print_line(f"modes     its tools can be classified for {', '.join(told['modes'])}")
    if told["unreadable"]:
        note(
            f"warning   the sandbox blocks reading {told['unreadable']}; remove the server and add it again"
        )
        note("          with --readable FOLDER")
    for word in _relative_files(command):
        note(f"warning   {word} is a relative path, and the server runs in its own folder;")
        note("          remove the server and add it again with the absolute path")
    _note_state(told)
    return ExitCode.ok


def _relative_files(command: tuple[str, ...]) -> list[str]:
    """Arguments that are files relative to this directory, which the server will not find from its own."""
    return [word for word in command[1:] if not word.startswith(("/", "-")) and Path(word).is_file()]


@app.command(name="list")
async def list_servers(*, json: AsJson = False) -> int:
    """List the servers, whether they are usable, and the classification of their tools."""

    async with open_cli_runtime(sandboxed=True) as runtime:
        told = await runtime.mcp_servers.servers()
    if json:
        print_json(told)
        return ExitCode.ok
    if not told["servers"]:
        note("no MCP servers; to add one: interlock mcp add NAME -- COMMAND")
        return ExitCode.ok
    rows = [
        [
            each["id"],
            each["url"] or " ".join(each["command"]),
            ", ".join(f"{count} {state}" for state, count in each["tools"].items()) or "not inspected yet",
            each["closed"] or each["unavailable"] or _use(each["tools"]),
        ]
        for each in told["servers"]
    ]
    print_table(["server", "command or URL", "tools", "state"], rows)
    return ExitCode.ok


@app.command
async def inspect(server: str, tool: str | None = None, *, json: AsJson = False) -> int:
    """Start a server, query its tools, and show them; with a tool's name, show that tool in full.

    Parameters
    ----------
    server
        The server's id.
    tool
        The name of one of its tools.
    """

    async with open_cli_runtime(sandboxed=True) as runtime:
        told = await runtime.mcp_servers.inspect(server, is_operator=True)
    offered = [each for each in told["offered"] if tool is None or tool in {each["tool"], each["name"]}]
    if json:
        print_json(told | {"offered": offered})
    elif tool is not None:
        for each in offered:
            _print_tool(each)
    else:
        print_line(f"server    {server} reports the name {told['calls_itself'] or '(none)'}")
        if told["instructions"]:
            note(f"instructions for models (not passed on): {told['instructions']}")
        rows = [
            [each["tool"], _class_text(each), each["suggested_effect"], each["hash"][:12], _brief(each)]
            for each in offered
        ]
        print_table(["tool", "class", "its own hint", "hash", "its own description"], rows)
        for each in offered:
            _print_changes(each)
        _note_state(told)
    if tool is not None and not offered:
        note(f"{server} offers no tool '{tool}'")
        return ExitCode.failed
    return ExitCode.ok


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
    """Classify a tool as it was last inspected: its effect, and the modes in which it may be used.

    Parameters
    ----------
    server
        The server's id.
    tool
        The tool's name.
    effect
        read, write, exec or special. Only a tool that reads may be repeated after a crash.
    modes
        The modes in which it may be used, separated by commas.
    group
        The tool's group, for display.
    hash
        The hash of the definition you reviewed, as inspect shows it, or at least its first 12 characters.
        The command fails if the tool has changed since.
    vouch
        Classify it for a mode whose limits the sandbox does not enforce on its server. You vouch for it.
    """
    from interlock.gates.mcp_administration import ClassifyRequest
    from interlock.wiring import local_actor

    request = ClassifyRequest(
        effect=effect, modes=tuple(modes.split(",")), group=group, hash=hash, is_vouched=vouch
    )
    async with open_cli_runtime(sandboxed=True) as runtime:
        told = await runtime.mcp_servers.allow(server, tool, request, who=local_actor(), is_operator=True)
    if json:
        print_json(told)
        return ExitCode.ok
    _print_tool(told["tool"])
    print_line(f"saved     {told['tool']['name']}: {_class_text(told['tool'])}")
    print_line(
        f"pinned    to its definition {told['tool']['hash'][:12]}; a changed definition must be "
        "classified again"
    )
    _note_state(told["server"])
    return ExitCode.ok


@app.command
async def classify(
    server: str,
    *,
    accept: str = "",
    classes: Annotated[tuple[str, ...], Parameter(name="--set", consume_multiple=False, negative=())] = (),
    skip: Annotated[tuple[str, ...], Each] = (),
    json: AsJson = False,
) -> int:
    """Propose a classification of all tools from the server's own claims; with --accept, save it.

    The claims are not verified: read them before you accept. Without --accept, nothing is saved.

    Parameters
    ----------
    server
        The server's id.
    accept
        The hash of the proposal that you reviewed, or at least its first 12 characters. The command fails
        if a definition, an annotation or the server has changed since.
    classes
        Your own classification of a tool: TOOL=EFFECT:MODES, such as search=read:chat,coding.
    skip
        A tool to leave as it is.
    """
    from interlock.wiring import local_actor

    others = _own_classes(classes) | dict.fromkeys(skip)
    if others and not accept:
        raise BadUsage("--set and --skip apply only with --accept HASH; review the proposal first")
    async with open_cli_runtime(sandboxed=True) as runtime:
        servers = runtime.mcp_servers
        if accept:
            told = await servers.accept(server, accept, others, who=local_actor())
        else:
            told = await servers.inspect(server, is_operator=True)
    if json:
        print_json(told)
    elif accept:
        for tool in told["tools"]:
            print_line(f"saved     {tool['name']}: {_class_text(tool)}")
        print_line(f"classified {len(told['tools'])} tools, each only for the definition you reviewed")
        _note_state(told["server"])
    else:
        _print_proposal(server, told)
    return ExitCode.ok


def _own_classes(written: tuple[str, ...]) -> dict[str, tuple[str, tuple[str, ...]] | None]:
    found: dict[str, tuple[str, tuple[str, ...]] | None] = {}
    for text in written:
        tool, is_named, given = text.rpartition("=")
        effect, is_split, modes = given.partition(":")
        if not is_named or not is_split or not tool:
            raise BadUsage(f"--set {text}: write TOOL=EFFECT:MODES, such as search=read:chat,coding")
        found[tool] = (effect, tuple(modes.split(",")))
    return found


def _print_proposal(server: str, told: dict[str, Any]) -> None:
    rows = [
        [each["tool"], _claims(each), _proposed(each), each["hash"][:12], _brief(each)]
        for each in told["offered"]
    ]
    columns = ["tool", "the server claims", "proposal", "hash", "its own description"]
    print_table(columns, rows)
    for each in told["offered"]:
        _print_changes(each)
    if any(each["proposal"] for each in told["offered"]):
        note("The proposal follows from the server's own claims, which are not verified.")
        note(f"next      interlock mcp classify {server} --accept {told['proposal'][:12]}")
        note("          --set TOOL=EFFECT:MODES classifies a tool otherwise, --skip TOOL leaves it out")
    else:
        note("no tool can be classified by a proposal")


def _claims(tool: dict[str, Any]) -> str:
    said = [words for hint, value in tool["hints"].items() if (words := _CLAIMS.get((hint, value)))]
    title = [f"“{tool['title']}”"] if tool["title"] else []
    return ", ".join([*said, *title]) or "nothing"


def _proposed(tool: dict[str, Any]) -> str:
    proposed = tool["proposal"]
    if proposed is not None:
        return f"{proposed['effect']} in {', '.join(proposed['modes'])}"
    return _class_text(tool) if tool["state"] not in {"unclassed", "changed"} else "none: decide with --set"


@app.command
async def remove(server: str, tool: str | None = None, *, json: AsJson = False) -> int:
    """Remove a server with the classifications of its tools; with a tool's name, only that classification.

    Parameters
    ----------
    server
        The server's id.
    tool
        The tool whose classification to remove.
    """
    from interlock.wiring import local_actor

    async with open_cli_runtime() as runtime:
        told = await runtime.mcp_servers.remove(server, tool, who=local_actor())
    if json:
        print_json(told)
    else:
        print_line(
            f"removed   {server}" if tool is None else f"removed   the classification of {server} {tool}"
        )
    return ExitCode.ok


def _class_text(tool: dict[str, Any]) -> str:
    given = tool["class"]
    if tool["state"] == "classed":
        vouched = ", vouched for" if given["vouched"] else ""
        return f"{given['effect']} in {', '.join(given['modes'])}{vouched}"
    return f"{_STATES[tool['state']]}{': ' + tool['problem'] if tool['problem'] else ''}"


def _use(tools: dict[str, int]) -> str:
    """A summary by the states of the server's tools, if the server itself is usable."""
    if tools.get("classed"):
        return "usable"
    if tools.get("changed"):
        return "not usable: a classified tool has CHANGED; review it and classify it again"
    return "not usable: no tool is classified"


def _brief(tool: dict[str, Any]) -> str:
    text: str = tool["description"]
    return text if len(text) <= MAX_BRIEF_CHARS else f"{text[: MAX_BRIEF_CHARS - 1]}…"


def _print_changes(tool: dict[str, Any]) -> None:
    """What differs from the classified definition; lines of the server begin with '-', '+' or a space."""
    for change in tool["changes"]:
        print_line(f"changed   {tool['tool']}: {_FIELDS[change['field']]}")
        for line in change["diff"]:
            print_line(line)


def _print_tool(tool: dict[str, Any]) -> None:
    import orjson

    for label, value in (
        ("tool", tool["tool"]),
        ("name here", tool["name"]),
        ("class", _class_text(tool)),
        ("hash", tool["hash"]),
        ("title", tool["title"]),
        ("hints", ", ".join(f"{name}={value}" for name, value in tool["hints"].items()) or "none"),
        ("says", tool["description"]),
    ):
        if value or label != "title":
            print_line(f"{label:<9} {value}")
    print_line("schema")
    print_text(orjson.dumps(tool["schema"], option=orjson.OPT_INDENT_2).decode())
    _print_changes(tool)


def _note_state(server: dict[str, Any]) -> None:
    """Print why the server is not usable yet, and the commands to run next."""
    if server["unavailable"]:
        note(f"warning   not usable here: {server['unavailable']}")
    for step in server["next"]:
        note(f"next      {step}")
