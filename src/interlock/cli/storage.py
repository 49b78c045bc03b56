"""`interlock backup`, `restore` and `db`: the store as a whole."""

from pathlib import Path

from cyclopts import App

from interlock.cli.exits import Exit
from interlock.cli.output import AsJson, note, print_json, print_line
from interlock.cli.runtime import opened_runtime

app = App(name="db", help="Maintain the database.", help_format="plaintext")


async def backup(file: Path, *, json: AsJson = False) -> int:
    """Write the whole store into one new file, while Interlock may go on working.

    Parameters
    ----------
    file
        Where to write it; it must not exist.
    """
    from interlock.store.archive import back_up

    _refuse_in_reach(file, "agents could read it, and it contains every session")
    async with opened_runtime() as runtime:
        entries = back_up(runtime.database, file)
    rows = {entry.name: entry.rows for entry in entries}
    if json:
        print_json({"file": str(file), "rows": rows})
    else:
        print_line(f"wrote {file}: {rows['sessions']} sessions, {rows['events']} events")
    return Exit.ok


def restore(file: Path, *, replace: bool = False, json: AsJson = False) -> int:
    """Fill the store from a backup. The backup is verified before anything is replaced.

    Parameters
    ----------
    file
        A file that `interlock backup` wrote.
    replace
        Replace the store that is there. An SQLite file is kept beside the new one; PostgreSQL is not.
    """
    from interlock.config.settings import load_settings
    from interlock.events.verify import verify
    from interlock.infra.errors import PersonError
    from interlock.session.settings_store import newest
    from interlock.store.archive import restore as fill
    from interlock.store.driver import Connection
    from interlock.wiring import store_config

    _refuse_in_reach(file, "agents could have changed it, and with it their own permissions")

    def check(connection: Connection) -> None:
        report = verify(connection)
        if not report.ok:
            raise PersonError(f"the backup does not verify; nothing was replaced: {report.faults[0]}")
        newest(connection)

    kept = fill(store_config(load_settings()), file, replace_existing=replace, check=check)
    if json:
        print_json({"restored": str(file), "kept": str(kept) if kept else None})
    else:
        print_line(f"restored {file}")
        if kept:
            note(f"the previous store was saved as {kept}")
    return Exit.ok


def _refuse_in_reach(file: Path, why: str) -> None:
    from interlock.config.folders import links_to
    from interlock.config.settings import load_settings
    from interlock.infra.errors import PersonError

    for root in load_settings().tool.allowed_roots or ():
        if any(place.is_relative_to(root) for place in (file.resolve(), *links_to(file))):
            raise PersonError(f"{file} is in the opened folder {root}: {why}; choose a path elsewhere")


@app.command(name="upgrade")
def upgrade_schema(*, json: AsJson = False) -> int:
    """Upgrade the database to this program's schema; a SQLite file is copied first."""
    from interlock.config.settings import load_settings
    from interlock.store.database import stored_revision
    from interlock.store.upgrade import upgrade
    from interlock.wiring import store_config

    config = store_config(load_settings())
    before = stored_revision(config)
    after = upgrade(config)
    if json:
        print_json({"before": before, "after": after})
    else:
        was = "created" if before is None else f"was {before}"
        print_line(f"schema {after} ({'unchanged' if before == after else was})")
    return Exit.ok
