"""`interlock settings`: settings that people may change at run time, below the operator's ceiling."""

from typing import TYPE_CHECKING, Any

from cyclopts import App

from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import AsJson, note, print_json, print_line, print_table
from interlock.cli.runtime import open_cli_runtime

if TYPE_CHECKING:
    from interlock.sessions.runtime_settings import SettingsStore, UnreadableSettings

app = App(name="settings", help="Show and change the stored settings.", help_format="plaintext")


@app.command
async def show(*, json: AsJson = False) -> int:
    """Show the stored settings and, where the operator's ceiling is lower, the effective values.

    If the settings cannot be read, it shows them as stored, with every error, and exits with 1.
    """
    from interlock.policy.policy_fields import merge_tool_policies, to_document
    from interlock.sessions.runtime_settings import UnreadableSettings, flatten_document

    async with open_cli_runtime() as runtime:
        try:
            current = await runtime.stored_settings.current()
        except UnreadableSettings as broken:
            _show_broken(broken, as_json=json)
            return ExitCode.failed
        merged = merge_tool_policies(runtime.authority_inputs.environment, current.settings.tools)
    stored = to_document(current.settings)
    effective = {"tools": to_document(merged)}
    holds = dict(flatten_document(effective))
    unknown = {path: value for path, value in flatten_document(dict(current.document)) if path not in holds}
    if json:
        told = {"settings": stored, "effective": effective, "unknown": unknown, "faults": []}
        print_json({"version": current.version, **told})
        return ExitCode.ok
    rows = [[path, _shown(value), _shown(holds[path])] for path, value in flatten_document(stored)]
    print_table(["setting", "stored", "effective"], rows)
    for path, value in unknown.items():
        note(f"warning: {path} is stored ({_shown(value)}), but this version has no such setting; ignored")
    note(f"version {current.version}; to change a setting: interlock settings set tools.fs.enabled false")
    return ExitCode.ok


def _show_broken(broken: "UnreadableSettings", *, as_json: bool) -> None:
    """Print the stored settings, their errors, and how to repair them."""
    from interlock.sessions.runtime_settings import field_paths, flatten_document

    if as_json:
        faults = [{"path": fault.path, "message": fault.message} for fault in broken.faults]
        told = {"settings": None, "effective": None, "stored": broken.document, "faults": faults}
        print_json({"version": broken.version, **told})
        return
    document = broken.document if isinstance(broken.document, dict) else {"(all)": broken.document}
    values = dict(flatten_document(document))
    faults_at: dict[str, list[str]] = {}
    for fault in broken.faults:
        begins = ((path, (f"{path}.", f"{path}[")) for path in values)
        path = next((path for path, marks in begins if f"{fault.path}.".startswith(marks)), fault.path)
        faults_at.setdefault(path or "(all)", []).append(fault.message)
    rows = [
        [path, _shown(values.get(path)), "; ".join(faults_at.get(path, []))]
        for path in dict.fromkeys((*values, *faults_at))
    ]
    print_table(["setting", "stored", "fault"], rows)
    field = next((path for path in faults_at if path in field_paths()), "tools.fs.enabled")
    note(
        f"version {broken.version} of the stored settings cannot be read, so no task can run\n"
        f"repair it with: interlock settings set {field} VALUE\nThis stores version "
        f"{broken.version + 1}, in which everything except the value you set is switched off."
    )


@app.command(name="set")
async def set_value(path: str, value: str, *, json: AsJson = False) -> int:
    """Change one stored setting.

    Parameters
    ----------
    path
        The setting's name as `settings show` prints it, for example tools.fs.max_read_bytes.
    value
        The new value as JSON (false, 1048576, ["a", "b"]), or a word where the setting has a choice
        (deny); an empty value restores the default.
    """
    from interlock.policy.policy_fields import to_document, unknown_tools
    from interlock.sessions.runtime_settings import patch_for
    from interlock.wiring import local_actor

    async with open_cli_runtime() as runtime:
        before = await _version(runtime.stored_settings)
        patch = patch_for(path, _parsed(path, value))
        after = await runtime.stored_settings.update(patch, who=local_actor())
        await runtime.mcp.refresh()
        known = {name for entry in runtime.registry for name in (entry.tool.name, *entry.tool.aliases)}
    if json:
        print_json({"version": after.version, "settings": to_document(after.settings)})
    else:
        print_line("nothing changed" if after.version == before else f"saved as version {after.version}")
    for name in unknown_tools(after.settings.tools.denied_tools, known):
        note(f"warning: denied_tools names '{name}', but there is no such tool")
    return ExitCode.ok


async def _version(store: "SettingsStore") -> int:
    """The newest version. If it cannot be read, warn that the change replaces it."""
    from interlock.sessions.runtime_settings import UnreadableSettings

    try:
        return (await store.current()).version
    except UnreadableSettings as error:
        note(f"warning: {error.summary}. Every setting that you do not set now is switched off")
        return error.version


def _parsed(path: str, value: str) -> Any:
    import orjson

    from interlock.core.errors import InvalidStoredSettings
    from interlock.policy.policy_fields import FIELDS

    field = FIELDS.get(path.removeprefix("tools."))
    if value == "" or (field is not None and value in dict(field.kind.choices)):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        raise InvalidStoredSettings(
            f"'{value}' is not JSON; write true, false, a number, or a list in brackets"
        ) from None


def _shown(value: Any) -> str:
    import orjson

    return "(unset)" if value is None else orjson.dumps(value).decode()
