"""A person who writes to the database and can compute every hash, with the signing key or without it.

docs/security.md has the same table: what is noticed at once, what only against an anchor that was kept
elsewhere, and what is not noticed. Every change is made to one store that was really used, and rolled back.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
import pytest

from interlock.config.modes import ToolMode
from interlock.db.backup_and_restore import create_backup, restore
from interlock.db.database import StoreConfig
from interlock.db.driver import DbConnection
from interlock.gateway.auth import CredentialService
from interlock.log.checkpoint import Anchor, lost_anchor, store_id, write_checkpoint
from interlock.log.hash_chain import GENESIS, EventHeader, chain_hash, hash_content
from interlock.log.kinds import SYSTEM_STREAM, LogErased
from interlock.log.signing import SigningKeyStore
from interlock.tools.mcp.server import AddServerRequest
from interlock.wiring.projections import verify
from tests.harness.runtime import call, open_agent_runtime_here, script, set_environment
from tests.harness.workflows import WorkflowHarness
from tests.integration.workflow.graphs import ONE

DOCUMENT = Path(__file__).parents[2] / "docs" / "security.md"
AT_ONCE, BY_AN_ANCHOR, NEVER = "at once", "by an anchor", "not"

ROW = """SELECT id, time_us, stream, seq, task, parent, kind, facts, content, salt, content_hash
    FROM events WHERE stream = ? ORDER BY seq"""
OF_STREAM = {
    "events": "stream",
    "stream_heads": "stream",
    "event_texts": "stream",
    "sessions": "id",
    "tasks": "session_id",
    "questions": "session_id",
    "usage": "session_id",
}


@dataclass(frozen=True)
class Victim:
    """Ids of sessions: `one` with a finished call, `two` with an open question."""

    connection: DbConnection
    keys: SigningKeyStore
    state: Path
    one: str
    two: str

    def change(self, sql: str, *parameters: object) -> None:
        self.connection.change(sql, parameters)

    def changed_facts(self, old: str, new: str, condition: str = "1 = 1") -> None:
        self.change(f"UPDATE events SET facts = replace(facts, ?, ?) WHERE {condition}", old, new)

    def rewrite(self, *, keys: SigningKeyStore | None = None, signs: bool = True) -> None:
        """Make every hash, head, checkpoint and signature right again, as if it had always been so."""
        hashes: dict[tuple[str, int], bytes] = {}
        heads = "SELECT stream FROM stream_heads ORDER BY CASE stream WHEN 'system' THEN 1 ELSE 0 END"
        for (stream,) in self.connection.query(heads):
            chained = GENESIS
            for *header, told, content, salt, erased in self.connection.query(ROW, (stream,)):
                facts = told
                if signs or header[6] != "log.signed":
                    facts = self._refreshed(header[6], told, hashes, keys or self.keys)
                if content is not None:
                    content_hash = hash_content(bytes(salt), content.encode())
                else:
                    content_hash = None if erased is None else bytes(erased)
                before, fields = chained, EventHeader(*header)
                chained = chain_hash(before, fields.encoded(), facts.encode(), content_hash)
                hashes[stream, fields.seq] = chained
                self.change(
                    "UPDATE events SET facts = ?, content_hash = ?, prev_hash = ?, hash = ? "
                    "WHERE stream = ? AND seq = ?",
                    *(facts, content_hash, before, chained, stream, fields.seq),
                )
            last = max((seq for of, seq in hashes if of == stream), default=0)
            self.change("UPDATE stream_heads SET seq = ?, hash = ? WHERE stream = ?", last, chained, stream)

    def _refreshed(
        self, kind: str, facts: str, hashes: dict[tuple[str, int], bytes], keys: SigningKeyStore
    ) -> str:
        fields = orjson.loads(facts)
        if kind == "log.checkpoint":
            fields["heads"] = [
                [stream, seq, hashes[stream, seq].hex()]
                for stream, seq, _ in fields["heads"]
                if (stream, seq) in hashes
            ]
        elif kind == "log.signing_key" and keys is not self.keys:
            fields["public_key"] = keys.first().public
        elif kind == "log.signed":
            key, chained = keys.first(), hashes[SYSTEM_STREAM, fields["seq"]]
            signed = Anchor(store_id(self.connection), fields["seq"], chained).text
            fields |= {"key": key.public, "signature": key.sign(signed)}
        else:
            return facts
        return orjson.dumps(fields).decode()

    def rename_session(self, old: str, new: str) -> None:
        for table, column in OF_STREAM.items():
            self.change(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", new, old)


Change = Callable[[Victim], object]


def sql(statement: str, *parameters: object) -> Change:
    return lambda victim: victim.change(statement, *parameters)


def of_session(statement: str) -> Change:
    return lambda victim: victim.change(statement, victim.one)


def remove_session(victim: Victim) -> None:
    for table, column in OF_STREAM.items():
        victim.change(f"DELETE FROM {table} WHERE {column} = ?", victim.one)
    victim.rewrite()


def rewrite_call(victim: Victim) -> None:
    victim.change("UPDATE events SET content = replace(content, 'made.txt', 'read.txt')")
    victim.rewrite()


def rename_actors(victim: Victim) -> None:
    victim.changed_facts('"ada"', '"eve"')
    victim.changed_facts('"test"', '"eve"')
    for table, column in {
        "sessions": "opened_by",
        "tasks": "who",
        "usage": "actor",
        "runs": "started_by",
        "mcp_servers": "added_by",
        "settings_versions": "changed_by",
        "credentials": "created_by",
    }.items():
        victim.change(f"UPDATE {table} SET {column} = 'eve' WHERE {column} IN ('ada', 'test')")
    victim.rewrite()


def swap_sessions(victim: Victim) -> None:
    for old, new in ((victim.one, "s_other"), (victim.two, victim.one), ("s_other", victim.two)):
        victim.rename_session(old, new)
        victim.changed_facts(f'"{old}"', f'"{new}"')
    victim.rewrite()


def replace_key(victim: Victim) -> None:
    victim.rewrite(keys=SigningKeyStore(victim.state / "own"))


def remove_checkpoints(victim: Victim) -> None:
    """They are the last events of the system stream here."""
    victim.change("DELETE FROM events WHERE stream = 'system' AND kind LIKE 'log.%'")
    victim.rewrite()


def rewrite_call_without_key(victim: Victim) -> None:
    victim.change("UPDATE events SET content = replace(content, 'made.txt', 'read.txt')")
    victim.rewrite(signs=False)


def rewrite_what_is_new(victim: Victim) -> None:
    victim.change("UPDATE events SET content = replace(content, 'afterwards', 'never')")
    victim.change("UPDATE sessions SET title = 'never' WHERE title = 'afterwards'")
    victim.rewrite()


def leave_trigger(victim: Victim) -> None:
    if victim.connection.dialect == "sqlite":
        victim.change("CREATE TRIGGER helpful AFTER INSERT ON sessions BEGIN DELETE FROM events; END")
    else:
        victim.change("CREATE FUNCTION help() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")
        victim.change(
            "CREATE TRIGGER helpful BEFORE INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION help()"
        )


def erase_under_any_name(victim: Victim) -> None:
    """With a record of the erasure, chained like any other."""
    ((seq, chained),) = victim.connection.query(
        "SELECT seq, hash FROM stream_heads WHERE stream = 'system'"
    )
    ((number,),) = victim.connection.query(
        "SELECT max(seq) FROM events WHERE stream = ? AND kind = 'tool_call.started'", (victim.one,)
    )
    now = victim.connection.query("SELECT max(time_us) + 1, max(position) + 1 FROM events")[0]
    erased = LogErased(
        who="operator", of=victim.one, before_us=now[0], events=1, messages=0, ranges=[[number, number]]
    )
    victim.change(
        "INSERT INTO events (position, id, stream, seq, time_us, kind, facts, prev_hash, hash) "
        "VALUES (?, 'e', 'system', ?, ?, 'log.erased', ?, ?, ?)",
        *(now[1], seq + 1, now[0], orjson.dumps(asdict(erased)).decode(), chained, chained),
    )
    victim.change(
        "UPDATE events SET content = NULL, salt = NULL WHERE stream = ? AND seq = ?", victim.one, number
    )
    victim.rewrite()


def change_kept_file(victim: Victim) -> None:
    kept = [path for path in (victim.state / "kept").rglob("*") if path.is_file()]
    assert kept
    for path in kept:
        path.write_bytes(b"something else")


TAMPERINGS: dict[str, tuple[Change, str]] = {
    "the facts of an event are changed": (
        lambda victim: victim.changed_facts("write_file", "read_file"),
        AT_ONCE,
    ),
    "the content of an event is changed": (
        sql("UPDATE events SET content = replace(content, 'made.txt', 'read.txt')"),
        AT_ONCE,
    ),
    "the time, the task or the cause of an event is changed": (
        of_session("UPDATE events SET time_us = time_us + 1 WHERE stream = ? AND seq = 3"),
        AT_ONCE,
    ),
    "an event is removed from the middle": (
        of_session("DELETE FROM events WHERE stream = ? AND seq = 3"),
        AT_ONCE,
    ),
    "the end of a stream is cut off": (
        of_session("DELETE FROM events WHERE stream = ? AND seq > 3"),
        AT_ONCE,
    ),
    "content is removed without a record of it": (
        of_session("UPDATE events SET content = NULL, salt = NULL WHERE stream = ? AND seq = 2"),
        AT_ONCE,
    ),
    "a text in the search index is changed": (
        of_session("UPDATE event_texts SET text = 'other' WHERE stream = ?"),
        AT_ONCE,
    ),
    "an event is moved behind a checkpoint that covers it": (
        of_session("UPDATE events SET position = 100000 WHERE kind = 'session.created' AND stream = ?"),
        AT_ONCE,
    ),
    "a session gets another mode, agent, model or owner": (
        of_session("UPDATE sessions SET mode = 'chat' WHERE id = ?"),
        AT_ONCE,
    ),
    "a session gets another title": (of_session("UPDATE sessions SET title = 'x' WHERE id = ?"), AT_ONCE),
    "the row of a session is removed": (of_session("DELETE FROM sessions WHERE id = ?"), AT_ONCE),
    "a task gets another status, mode or owner": (
        of_session("UPDATE tasks SET who = 'eve' WHERE session_id = ?"),
        AT_ONCE,
    ),
    "a task gets other times": (
        of_session("UPDATE tasks SET created_us = 0 WHERE session_id = ?"),
        AT_ONCE,
    ),
    "a question is closed": (sql("UPDATE questions SET status = 'answered'"), AT_ONCE),
    "a run or a step gets another status": (sql("UPDATE runs SET status = 'done'"), AT_ONCE),
    "a version of the stored settings is changed or added": (
        sql("UPDATE settings_versions SET document = '{}'"),
        AT_ONCE,
    ),
    "the hash of a token is exchanged for another": (
        sql("UPDATE credentials SET hash = ?", b"\1" * 32),
        AT_ONCE,
    ),
    "a token is made without an event": (
        sql(
            "INSERT INTO credentials (id, kind, name, hash, created_us, created_by) "
            "VALUES ('c_own', 'token', 'ada', ?, 0, 'ada')",
            b"\1" * 32,
        ),
        AT_ONCE,
    ),
    "an MCP server gets another definition": (
        sql("UPDATE mcp_servers SET definition = replace(definition, '/bin/true', '/bin/false')"),
        AT_ONCE,
    ),
    "the counted tokens are lowered": (
        sql("UPDATE usage SET input_tokens = 0, output_tokens = 0"),
        AT_ONCE,
    ),
    "a trigger is left in the database": (leave_trigger, AT_ONCE),
    "the store gets the id of another": (
        sql("UPDATE store_info SET value = ? WHERE key = 'store_id'", "0" * 32),
        AT_ONCE,
    ),
    "a call is rewritten, with all hashes and signatures": (rewrite_call, BY_AN_ANCHOR),
    "every act is given another name": (rename_actors, BY_AN_ANCHOR),
    "a session is removed with all its rows": (remove_session, BY_AN_ANCHOR),
    "two sessions are exchanged": (swap_sessions, BY_AN_ANCHOR),
    "all checkpoints are removed": (remove_checkpoints, BY_AN_ANCHOR),
    "the signing key is exchanged for another": (replace_key, BY_AN_ANCHOR),
    "what came after the newest anchor is rewritten": (rewrite_what_is_new, NEVER),
    "content is erased with a record of it, under any name": (erase_under_any_name, NEVER),
    "a version kept for undo is changed": (change_kept_file, NEVER),
}
ROLLED_BACK = "the whole store is rolled back"
# By a person who cannot read the key, nor write beside it. Everything above has the worst case.
WITHOUT_THE_KEY: dict[str, tuple[Change, str]] = {
    "by a person without the key: a call is rewritten, with all hashes": (
        rewrite_call_without_key,
        AT_ONCE,
    ),
    "by a person without the key: all checkpoints are removed": (remove_checkpoints, AT_ONCE),
    "by a person without the key: what came after the newest checkpoint is rewritten": (
        rewrite_what_is_new,
        NEVER,
    ),
}


@pytest.fixture
async def world(store_config, tmp_path, monkeypatch):
    """A store that was used, a backup of its beginning, its anchor, and something that came after that."""
    state = tmp_path / "used"
    question = call("ask_user", type="confirmation", message="Shall I?")
    model = script(
        tmp_path,
        {"tool_calls": [call("read_file", path="made.txt")]},
        {"tool_calls": [call("write_file", path="made.txt", content="new")]},
        "msg:done",
        {"tool_calls": [question]},
    )
    environment = {
        "INTERLOCK_STATE_DIR": str(state),
        "DATABASE_URL": store_config.url,
        "MODEL": model,
    }
    root = set_environment(tmp_path, monkeypatch, environment)
    (root / "made.txt").write_text("old")
    async with open_agent_runtime_here(opened=list(ToolMode)) as agent_runtime:
        ada, runtime = WorkflowHarness(agent_runtime, root), agent_runtime.runtime
        one, two = await ada.session(), await ada.session()
        assert (await ada.say(one, "overwrite it")).status == "done"
        create_backup(runtime.database, tmp_path / "backup")
        assert (await ada.say(two, "the same")).status == "done"
        assert (await ada.say(two, "and ask me")).status == "waiting"
        await runtime.stored_settings.update({"tools": {"fs": {"enabled": False}}}, who="ada")
        await CredentialService(runtime.database, runtime.log, runtime.redactor).add_token("t", who="ada")
        await runtime.mcp_servers.add(AddServerRequest(id="bad", command=("/bin/true",)), who="ada")
        ada.put("w", ONE, only="Do it.")
        await ada.start("w")
        anchor = await write_checkpoint(runtime.log, runtime.signing_keys)
        assert anchor is not None
        await runtime.sessions.rename(two, "afterwards", who="ada")

        @contextmanager
        def victim() -> Iterator[Victim]:
            with closing(store_config.connect()) as connection:
                connection.begin(write=True)
                yield Victim(connection, runtime.signing_keys, state, one, two)
                connection.rollback()

        yield victim, anchor


def noticed(connection: DbConnection, anchor: Anchor, *, last_signed: str = "") -> str:
    if not verify(connection).ok or lost_anchor(connection, last_signed) is not None:
        return AT_ONCE
    return NEVER if verify(connection, anchors=[anchor]).ok else BY_AN_ANCHOR


async def test_each_tampering_is_noticed_when_the_table_says_so(world, tmp_path):
    victim, anchor = world
    with victim() as untouched:
        assert verify(untouched.connection, anchors=[anchor]).faults == []
        untouched.rewrite()
        assert verify(untouched.connection, anchors=[anchor]).faults == []
    found = {}
    for name, (change, _) in TAMPERINGS.items():
        with victim() as each:
            change(each)
            found[name] = noticed(each.connection, anchor)
    assert found == {name: when for name, (_, when) in TAMPERINGS.items()}
    found = {}
    for name, (change, _) in WITHOUT_THE_KEY.items():
        with victim() as each:
            change(each)
            found[name] = noticed(each.connection, anchor, last_signed=each.keys.last_anchor())
    assert found == {name: when for name, (_, when) in WITHOUT_THE_KEY.items()}
    earlier = StoreConfig(f"sqlite:///{tmp_path}/earlier/interlock.db")
    restore(earlier, tmp_path / "backup", replace_existing=True, check=lambda _db: None)
    with closing(earlier.connect()) as connection:
        assert noticed(connection, anchor) == BY_AN_ANCHOR
        assert noticed(connection, anchor, last_signed=str(anchor)) == AT_ONCE


def test_the_table_of_the_documentation_is_this_one():
    rows = re.findall(r"^\| (.+?) \| \*\*(.+?)\*\*", DOCUMENT.read_text(), re.MULTILINE)
    tampered = TAMPERINGS | WITHOUT_THE_KEY
    own = {name: when for name, (_, when) in tampered.items()} | {
        ROLLED_BACK: BY_AN_ANCHOR,
        f"by a person without the key: {ROLLED_BACK}": AT_ONCE,
    }
    assert dict(rows) == own
