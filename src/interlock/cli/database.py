"""`interlock backup`, `restore` and `db`: operations on the whole database."""

from contextlib import closing
from pathlib import Path

from cyclopts import App

from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import AsJson, note, print_json, print_line
from interlock.cli.runtime import open_cli_runtime

app = App(name="db", help="Maintain the database.", help_format="plaintext")


async def backup(file: Path, *, json: AsJson = False) -> int:
    """Write the whole database to one new file. Interlock may keep running.

    Parameters
    ----------
    file
        Where to write it; the file must not exist.
    """
    from interlock.db.backup_and_restore import create_backup

    _refuse_in_reach(file, "agents could read it, and it contains every session")
    async with open_cli_runtime() as runtime:
        entries = create_backup(runtime.database, file)
    rows = {entry.name: entry.rows for entry in entries}
    if json:
        print_json({"file": str(file), "rows": rows})
    else:
        print_line(f"wrote {file}: {rows['sessions']} sessions, {rows['events']} events")
    return ExitCode.ok


def restore(file: Path, *, replace: bool = False, json: AsJson = False) -> int:
    """Fill the database from a backup. The backup is verified before anything is replaced.

    Parameters
    ----------
    file
        A file written by `interlock backup`.
    replace
        Replace the existing database. An SQLite file is kept next to the new one; PostgreSQL is not.
    """
    from interlock.config.settings import load_settings
    from interlock.core.errors import UserError
    from interlock.db.backup_and_restore import restore as fill
    from interlock.db.database import open_database
    from interlock.db.driver import DbConnection
    from interlock.sessions.runtime_settings import read_newest_settings
    from interlock.wiring import store_config
    from interlock.wiring.projections import verify
    from interlock.wiring.store_verification import signing_refusal

    _refuse_in_reach(file, "agents could have changed it, and with it their own permissions")

    def check(connection: DbConnection) -> None:
        report = verify(connection)
        if not report.ok:
            raise UserError(f"the backup does not verify; nothing was replaced: {report.faults[0]}")
        read_newest_settings(connection)

    settings = load_settings()
    config = store_config(settings)
    kept = fill(config, file, replace_existing=replace, check=check)
    if json:
        print_json({"restored": str(file), "kept": str(kept) if kept else None})
    else:
        print_line(f"restored {file}")
        if kept:
            note(f"the previous store was saved as {kept}")
    with closing(open_database(config)) as database, database.reading() as connection:
        if refusal := signing_refusal(connection, settings):
            note(refusal)
    return ExitCode.ok


def _refuse_in_reach(file: Path, why: str) -> None:
    from interlock.config.directory_checks import symlinks_on_path
    from interlock.config.settings import load_settings
    from interlock.core.errors import UserError

    for root in load_settings().tool.allowed_roots or ():
        if any(place.is_relative_to(root) for place in (file.resolve(), *symlinks_on_path(file))):
            raise UserError(f"{file} is in the opened folder {root}: {why}; choose a path elsewhere")


@app.command(name="upgrade")
def upgrade_schema(*, json: AsJson = False) -> int:
    """Upgrade the database to this program's schema; a SQLite file is copied first."""
    from interlock.config.settings import load_settings
    from interlock.db.database import stored_revision
    from interlock.db.upgrade import upgrade
    from interlock.wiring import store_config

    config = store_config(load_settings())
    before = stored_revision(config)
    after = upgrade(config)
    if json:
        print_json({"before": before, "after": after})
    else:
        was = "created" if before is None else f"was {before}"
        print_line(f"schema {after} ({'unchanged' if before == after else was})")
    return ExitCode.ok
