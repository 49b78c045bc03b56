"""Each table belongs to one package, and its rows follow from events or are listed as no projection."""

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from interlock.wiring.projections import PROJECTIONS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "interlock"
SCHEMA = "".join(path.read_text() for path in sorted(SOURCE.glob("db/migrations/sql/*.sql")))
TABLES = set(re.findall(r"CREATE (?:VIRTUAL )?TABLE (\w+)", SCHEMA))

OWN = {
    "channels/telegram": {name for name in TABLES if name.startswith("telegram_")},
    "db": {"leases"},
    "gates": {"authorities"},
    "gateway": {"credentials"},
    "log": {"events", "stream_heads", "event_texts", "usage", "store_info"},
    "questions": {"questions"},
    "runtime": {"tasks"},
    "sessions": {"sessions", "settings_versions"},
    "tools/mcp": {"mcp_servers", "mcp_tools", "mcp_changes"},
    "workflow": {"runs", "run_nodes"},
}
# What happened is in the log, which every package above it may read.
LOG = {"events", "stream_heads", "event_texts"}
IS_SHOWN = "what a deleted session has is hidden"
IS_WRITTEN_FOR = "a note says which agent, person, channel and task it was written for"
IS_CURRENT = "the condition of an intent: nothing was tightened since its call was judged"
# Tables of other packages in one statement with a package's own, each with the reason.
READ_ELSEWHERE = {
    ("channels/telegram/store.py", "sessions"): "a chat does not continue in a deleted session",
    ("channels/telegram/store.py", "tasks"): "tasks of the bot that chats no longer show",
    ("gateway/app.py", "tasks"): "/metrics counts tasks",
    ("questions/rows.py", "sessions"): IS_SHOWN,
    ("runtime/task_rows.py", "sessions"): IS_SHOWN,
    ("runtime/task_rows.py", "leases"): "work is what no live lease holds",
    ("runtime/task_rows.py", "questions"): "a task waits only for an open question",
    ("runtime/task_rows.py", "credentials"): "a revoked credential starts nothing: locked until the commit",
    ("runtime/task_rows.py", "runs"): "a revocation ends tasks and runs",
    ("runtime/tasks.py", "sessions"): "a deleted session takes no task",
    ("wiring/tool_services.py", "sessions"): IS_WRITTEN_FOR,
    ("wiring/tool_services.py", "tasks"): IS_WRITTEN_FOR,
    ("wiring/current_authority.py", "sessions"): IS_CURRENT,
    ("wiring/current_authority.py", "tasks"): IS_CURRENT,
    ("wiring/current_authority.py", "settings_versions"): IS_CURRENT,
    ("wiring/current_authority.py", "mcp_changes"): IS_CURRENT,
    ("workflow/run_rows.py", "sessions"): IS_SHOWN,
}
# `db` is below the log, and moves whole stores.
WRITTEN_ELSEWHERE = {
    ("db/backup_and_restore.py", "credentials"): "a backup has none",
    ("db/upgrade.py", "events"): "rows of a copied server get transactions of this one",
    ("runtime/anchor_sender.py", "store_info"): "the anchor that each sink confirmed",
}
READ_BY_DB = {("db/backup_and_restore.py", "events"), ("db/backup_and_restore.py", "store_info")}
READ_BY_DB |= {("db/database.py", "events")}


def statements(path: Path) -> Iterator[tuple[str, bool]]:
    """The tables that a module names in SQL, and whether it writes them."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = re.findall(r"\b(DELETE FROM|FROM|JOIN|UPDATE|INTO)\s+(\w+)", node.value)
            yield from ((table, verb not in {"FROM", "JOIN"}) for verb, table in found if table in TABLES)


def named() -> dict[tuple[str, str], bool]:
    """By module and table of another package: whether it is written."""
    found: dict[tuple[str, str], bool] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        own = next((tables for package, tables in OWN.items() if name.startswith(f"{package}/")), set())
        for table, writes in statements(path):
            if table not in own:
                found[name, table] = found.get((name, table), False) or writes
    return found


def test_every_table_belongs_to_one_package():
    listed = [table for tables in OWN.values() for table in tables]
    assert sorted(listed) == sorted(TABLES)


def test_the_log_names_no_table_of_another_package():
    assert [module for module, _ in named() if module.startswith("log/")] == []


def test_sql_names_tables_of_its_own_package_or_is_listed_with_a_reason():
    written = {key for key, writes in named().items() if writes}
    assert written == WRITTEN_ELSEWHERE.keys()
    read = {key for key, writes in named().items() if not writes and key[1] not in LOG}
    assert read == READ_ELSEWHERE.keys() | {key for key in READ_BY_DB if key[1] not in LOG}


def test_every_table_without_a_projection_is_listed_with_what_it_is():
    text = (ROOT / "docs" / "events.md").read_text().partition("The other tables are no projections:")[2]
    rows = [line for line in text.partition("\n### ")[0].splitlines() if line.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`([\w*]+)`", row.split("|")[1])]
    projected = {each.table for each in PROJECTIONS}
    for table in sorted(TABLES):
        matching = [name for name in listed if fnmatch(table, name)]
        assert len(matching) == (table not in projected), table
    assert [name for name in listed if not any(fnmatch(table, name) for table in TABLES)] == []
