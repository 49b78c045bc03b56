"""`interlock policy`: the matrix of tools and modes, and the evaluation of one call."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import AsJson, is_narrow, note, print_json, print_line, print_table
from interlock.cli.runtime import open_cli_runtime, parse_mode_argument, resolve_root_arguments
from interlock.config.modes import ToolMode

NARROW = 96

app = App(name="policy", help="Show what each mode allows, and why.", help_format="plaintext")


@app.command
async def matrix(*, json: AsJson = False) -> int:
    """Show whether each tool is allowed in each mode, and which layer decided."""
    from interlock.gates.explain import matrix_json

    async with open_cli_runtime(sandboxed=True) as runtime:
        real, opened = await runtime.views.by_mode()
        registry, open_modes = runtime.registry, runtime.authority_inputs.open_modes
    if json:
        print_json(matrix_json(registry, real, opened, open_modes))
        return ExitCode.ok
    # On a narrow terminal, the modes matter more than the group.
    about = ("effect",) if is_narrow(NARROW) else ("group", "effect")
    rows = [
        [
            tool.name,
            *(getattr(tool, name).value for name in about),
            *(_mark(opened[mode].verdicts[tool.name]) for mode in ToolMode),
        ]
        for tool in (entry.tool for entry in registry)
    ]
    heads = [mode.value if mode in open_modes else f"{mode.value}\n(closed)" for mode in ToolMode]
    print_table(["tool", *about, *heads], rows, styles=True)
    note(
        f"open modes: {', '.join(mode for mode in ToolMode if mode in open_modes)}   "
        "(SESSION_OPEN_MODES opens more)\nto check one call: interlock policy explain TOOL "
        "--mode MODE"
    )
    return ExitCode.ok


@app.command
async def explain(
    tool: str,
    *,
    mode: str = ToolMode.chat_safe.value,
    args: str | None = None,
    root: Annotated[tuple[Path, ...], Parameter(consume_multiple=False, negative=())] = (),
    json: AsJson = False,
) -> int:
    """Evaluate one call without running it.

    Parameters
    ----------
    tool
        The tool's name or one of its aliases.
    mode
        The mode to evaluate it in.
    args
        Its arguments as a JSON object; omit them to evaluate the tool alone.
    root
        A directory to evaluate paths against, instead of the configured ones.
    """
    from interlock.policy.verdict import ModeSwitchMethod

    chosen = parse_mode_argument(mode)
    async with open_cli_runtime(
        opened=[chosen], roots=resolve_root_arguments(root), sandboxed=True
    ) as runtime:
        answer = await runtime.views.explain(tool, chosen, args, way=ModeSwitchMethod.command)
        answer["mode_is_open"] = chosen in runtime.settings.session.open_modes
    if json:
        print_json(answer)
    else:
        _print_explanation(answer)
    if answer["allowed"]:
        return ExitCode.ok
    return ExitCode.denied if answer["error_class"] == "policy" else ExitCode.failed


@app.command
def check(file: Path, *, json: AsJson = False) -> int:
    """Check a file of rules about commands, and run its examples.

    Parameters
    ----------
    file
        The file, as TOOL_COMMAND_RULES names it.
    """
    from interlock.commands.rules import load_rules
    from interlock.core.errors import ConfigurationError

    try:
        rules = load_rules(file.read_text(), str(file))
    except (OSError, UnicodeError, ConfigurationError) as error:
        if json:
            print_json({"file": str(file), "valid": False, "problem": str(error)})
        else:
            print_line(f"wrong     {error}")
        return ExitCode.failed
    if json:
        decisions = {rule.name: rule.decision.value for rule in rules}
        print_json({"file": str(file), "valid": True, "rules": decisions})
    else:
        print_line(f"valid     {file}: {len(rules)} rules, all examples as expected")
    return ExitCode.ok


@app.command
async def show(digest: str, *, json: AsJson = False) -> int:
    """Show what the authority named by an event allowed.

    Parameters
    ----------
    digest
        The `authority_digest` of an event, or a unique prefix of it.
    """
    from interlock.core.errors import BadUsage
    from interlock.gates.authority_ledger import find_authority

    if not digest or not set(digest) <= set("0123456789abcdef"):
        raise BadUsage(f"'{digest}' is not a digest")
    async with open_cli_runtime() as runtime:
        found = await runtime.database.read(lambda db: find_authority(db, digest))
    if found is None:
        note(f"no single authority in the log has a digest that starts with {digest}")
        return ExitCode.failed
    if json:
        print_json(found)
        return ExitCode.ok if found["genuine"] else ExitCode.failed
    print_line(f"authority {found['digest']}")
    print_line(f"genuine   {'yes' if found['genuine'] else 'NO: the log was changed'}")
    print_line(f"mode      {found['mode']}")
    for verdict in found["verdicts"]:
        allowed = verdict[1] == "allowed"
        print_line(f"{'allowed ' if allowed else 'denied  '}  {verdict[0] if allowed else verdict[3]}")
    return ExitCode.ok if found["genuine"] else ExitCode.failed


def _print_explanation(answer: dict[str, Any]) -> None:
    if answer["allowed"]:
        print_line(f"allowed   {answer['tool_name']} in {answer['mode']} mode")
    else:
        label = "denied " if answer["error_class"] == "policy" else "refused"
        print_line(f"{label}   {answer['message']}")
        print_line(f"code      {answer['error_code']} ({answer['error_class']})")
        if answer["error_code"] != "TOOL_NOT_FOUND":
            print_line(f"by        {answer['decided_by']}")
        print_line(f"next      {answer['next_action']}")
    print_line(f"authority {answer['authority_digest'][:16]}")
    if not answer["mode_is_open"]:
        note(
            f"note: {answer['mode']} mode is not open for sessions here; it was opened for this "
            "command only"
        )


def _mark(verdict: Any) -> str:
    """Yes or no, with the layer that denied unless it is the tool's own declaration."""
    from interlock.policy.verdict import DeniedTool, PolicyLayer

    if not isinstance(verdict, DeniedTool):
        return "[green]yes[/green]"
    who = "" if verdict.layer is PolicyLayer.declaration else f" [dim]{verdict.layer.value}[/dim]"
    return f"[red]no[/red]{who}"
