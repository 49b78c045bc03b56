"""Who writes to the database lets themselves in, leaves something there that writes for them, or takes away
what the log is held against."""

import pytest

from interlock.gateway.auth import CredentialService
from interlock.gateway.credentials import CredentialKind, hash_secret, new_secret
from interlock.log.hash_chain import now_us
from interlock.log.retention import RetentionSweeper
from interlock.redaction.redactor import Redactor
from interlock.runtime.workflow_runs import WorkflowRunService
from interlock.sessions.models import Role
from tests.escape.victim import faults, new_session
from tests.harness.store import StoreHarness
from tests.harness.tasks import TaskHarness

DAY_US = 86_400_000_000
OWN = """INSERT INTO credentials (id, kind, name, hash, created_us, created_by)
    VALUES ('c_own', ?, 'ada', ?, 0, 'ada')"""


@pytest.fixture
def credentials(store: StoreHarness) -> CredentialService:
    return CredentialService(store.database, store.log, Redactor())


@pytest.fixture
def runs(store: StoreHarness) -> WorkflowRunService:
    return TaskHarness(store).runs


async def everybody(credentials: CredentialService, runs: WorkflowRunService) -> None:
    """A token, a link that nobody opened, a browser, and of each kind one that was ended."""
    for name in ("script", "old-script"):
        await credentials.add_token(name, who="ada")
    await credentials.revoke("old-script", runs, who="ada")
    # A link is worth nothing long before anything about it is erased.
    await credentials.issue_code(who="ada", ttl_seconds=0)
    browsers = [
        await credentials.redeem_code(await credentials.issue_code(who="ada"), browser_days=30)
        for _ in range(2)
    ]
    await credentials.end_browser(browsers[1].secret, who="ada")


async def test_who_came_in_and_went_is_no_fault(store, credentials, runs):
    await everybody(credentials, runs)
    assert faults(store) == []
    later = now_us() + 3 * DAY_US
    await RetentionSweeper(store.log, store.database, 1, lambda: later).sweep()
    assert faults(store) == []
    store.execute("DELETE FROM credentials")
    assert faults(store) == []


@pytest.mark.parametrize("kind", ["token", "browser", "code"])
async def test_a_credential_that_nobody_gave_is_told(store, credentials, kind, runs):
    await everybody(credentials, runs)
    store.execute(OWN, kind, b"\1" * 32)
    (fault,) = faults(store)
    assert "no event describes credential c_own" in fault


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("UPDATE credentials SET ended_us = NULL, ended_by = NULL", "was changed: ended_us, ended_by"),
        ("UPDATE credentials SET name = 'root' WHERE ended_us IS NULL", "was changed"),
        ("UPDATE credentials SET kind = 'token' WHERE ended_us IS NULL", "was changed"),
        ("UPDATE credentials SET expires_us = 9999999999999999 WHERE expires_us > 0", "was changed"),
        ("UPDATE credentials SET expires_us = NULL WHERE ended_us IS NULL", "was changed"),
        ("UPDATE credentials SET created_by = 'root'", "was changed: created_by"),
        ("UPDATE credentials SET ended_us = 5 WHERE ended_us IS NULL", "was changed: ended_us"),
    ],
)
async def test_a_credential_cannot_be_given_more_or_brought_back(store, credentials, change, told, runs):
    await everybody(credentials, runs)
    store.execute(change)
    (fault,) = faults(store)
    assert told in fault


async def test_a_token_cannot_be_given_another_secret_unseen(store, credentials):
    await credentials.add_token("script", who="ada")
    store.execute("UPDATE credentials SET hash = ?", hash_secret(own := new_secret(CredentialKind.token)))
    assert (await credentials.check_bearer(own)).name == "script"
    assert "was changed: hash" in faults(store)[0]


async def test_a_token_is_known_however_old_it_is(store, credentials, runs):
    await credentials.add_token("script", who="ada")
    await credentials.revoke("script", runs, who="ada")
    later = now_us() + 3 * DAY_US
    await RetentionSweeper(store.log, store.database, 1, lambda: later).sweep()
    store.execute("UPDATE credentials SET ended_us = NULL")
    assert "was changed: ended_us" in faults(store)[0]


LEFT_BEHIND = {
    "sqlite": [
        "CREATE TRIGGER helpful AFTER INSERT ON sessions BEGIN UPDATE sessions SET mode = 'coding'; END"
    ],
    "postgresql": [
        "CREATE FUNCTION help() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER helpful BEFORE INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION help()",
        "CREATE RULE helpful AS ON DELETE TO credentials DO INSTEAD NOTHING",
    ],
}


async def test_what_was_left_in_the_database_to_change_rows_is_told(store: StoreHarness):
    """Also while there is nothing yet that it has changed."""
    await new_session(store)
    assert faults(store) == []
    for statement in LEFT_BEHIND[store.database.dialect]:
        store.execute(statement)
    told = [fault.partition(" has a ")[2] for fault in faults(store)]
    own = {"sqlite": ["trigger"], "postgresql": ["rule", "trigger"]}[store.database.dialect]
    assert told == [f"{what} that does not belong to Interlock: helpful" for what in own]


@pytest.mark.parametrize(
    "table", ["tasks", "questions", "runs", "run_nodes", "mcp_servers", "mcp_tools", "credentials"]
)
async def test_rows_cannot_go_by_taking_away_their_table(sqlite_store: StoreHarness, table):
    sqlite_store.execute("PRAGMA foreign_keys = OFF")
    sqlite_store.execute(f"DROP TABLE {table}")
    assert f"the table {table} is missing" in faults(sqlite_store)[0]


async def test_nor_by_giving_a_column_another_name(sqlite_store: StoreHarness):
    await new_session(sqlite_store)
    sqlite_store.execute("ALTER TABLE sessions RENAME COLUMN agent TO actor")
    assert "sessions" in faults(sqlite_store)[0]


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("event_texts", "text = 'do evil'"),
        ("sessions", "mode = 'coding'"),
        ("settings_versions", """document = '{"tools": {"fs": {"enabled": true}}}'"""),
    ],
)
async def test_no_row_has_a_double_that_nobody_compares(store: StoreHarness, table, change):
    """Its key keeps the rows of a table apart; who writes to the database can make the table anew."""
    session = await new_session(store)
    await store.sessions.append_message(session, Role.user, "do good")
    await store.settings.update({"tools": {"fs": {"enabled": False}}}, who="test")
    assert faults(store) == []
    for statement in (
        f"CREATE TABLE copied AS SELECT * FROM {table}",
        f"CREATE TABLE doubled AS SELECT * FROM {table}",
        f"UPDATE doubled SET {change}",
        "INSERT INTO copied SELECT * FROM doubled",
        f"ALTER TABLE {table} RENAME TO put_away",
        f"ALTER TABLE copied RENAME TO {table}",
    ):
        store.execute(statement)
    assert any(f"the table {table} has" in fault for fault in faults(store))
