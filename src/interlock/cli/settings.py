"""`interlock settings`: what people may change while Interlock runs, below the operator's ceiling."""

from typing import TYPE_CHECKING, Any

from cyclopts import App

from interlock.cli.exits import Exit
from interlock.cli.output import AsJson, note, print_json, print_line, print_table
from interlock.cli.runtime import opened_runtime

if TYPE_CHECKING:
    from interlock.session.settings_store import SettingsStore

app = App(name="settings", help="Show and change the stored settings.", help_format="plaintext")


@app.command
async def show(*, json: AsJson = False) -> int:
    """Show the stored settings and, where the operator's ceiling is lower, what holds instead."""
    from interlock.gates.policy import merge_tool_policies
    from interlock.session.settings_store import leaves, to_document

    async with opened_runtime() as runtime:
        current = await runtime.stored_settings.current()
        merged = merge_tool_policies(runtime.situation.environment, current.settings.tools)
    stored = to_document(current.settings)
    effective = {"tools": to_document(merged)}
    if json:
        print_json({"version": current.version, "settings": stored, "effective": effective})
        return Exit.ok
    holds = dict(leaves(effective))
    rows = [[path, _shown(value), _shown(holds[path])] for path, value in leaves(stored)]
    print_table(["setting", "stored", "effective"], rows)
    note(f"version {current.version}; change one with: interlock settings set tools.fs.enabled false")
    return Exit.ok


@app.command(name="set")
async def set_value(path: str, value: str, *, json: AsJson = False) -> int:
    """Change one stored setting.

    Parameters
    ----------
    path
        The setting's name as `settings show` prints it, for example tools.fs.max_read_bytes.
    value
        The new value in JSON (false, 1048576, ["a", "b"]); an empty value restores the default.
    """
    from interlock.session.settings_store import patch_for, to_document
    from interlock.wiring import local_person

    async with opened_runtime() as runtime:
        before = await _version(runtime.stored_settings)
        after = await runtime.stored_settings.update(patch_for(path, _parsed(value)), who=local_person())
        await runtime.mcp.refresh()
        known = {name for entry in runtime.registry for name in (entry.tool.name, *entry.tool.aliases)}
    if json:
        print_json({"version": after.version, "settings": to_document(after.settings)})
    else:
        print_line("nothing changed" if after.version == before else f"saved as version {after.version}")
    for name in sorted(after.settings.tools.denied_tools - known):
        note(f"warning: denied_tools names '{name}', and no tool is called that")
    return Exit.ok


async def _version(store: "SettingsStore") -> int:
    """Which is stored; none that can be named where it cannot be understood, which a change mends."""
    from interlock.infra.errors import InvalidSettings

    try:
        return (await store.current()).version
    except InvalidSettings as error:
        note(f"warning: what was stored cannot be understood, so all that is not set now is off: {error}")
        return -1


def _parsed(value: str) -> Any:
    import orjson

    from interlock.infra.errors import InvalidSettings

    if value == "":
        return ""
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        raise InvalidSettings(
            f"'{value}' is not JSON; write true, false, a number, or a list in brackets"
        ) from None


def _shown(value: Any) -> str:
    import orjson

    return "(unset)" if value is None else orjson.dumps(value).decode()
