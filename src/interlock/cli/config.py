"""`interlock config`: the operator's settings."""

from dataclasses import asdict

from cyclopts import App

from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import AsJson, note, print_json, print_table

app = App(name="config", help="Show the operator's settings and their sources.", help_format="plaintext")


@app.command
def show(*, json: AsJson = False) -> int:
    """Print the effective value of every setting, with secrets masked, and its source."""
    from interlock.config.settings import load_settings
    from interlock.config.settings_report import describe_settings, unknown_variables

    rows = describe_settings(load_settings())
    unknown = unknown_variables()
    if json:
        print_json({"settings": [asdict(row) for row in rows], "unknown": unknown})
        return ExitCode.ok
    print_table(["setting", "value", "from"], [[row.name, row.value, row.origin] for row in rows])
    for name, near in unknown.items():
        note(f"warning: {name} is set but is not a setting" + (f"; did you mean {near}?" if near else ""))
    return ExitCode.ok
