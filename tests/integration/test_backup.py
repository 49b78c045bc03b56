"""Backups: the same file restores either database, whole and verified, or not at all."""

import zipfile
from hashlib import sha256

import orjson
import pytest

from interlock.core.errors import StoreLocked, StoreTooNew, UserError
from interlock.db.backup_and_restore import LEFT_OUT, create_backup, restore
from interlock.db.database import StoreConfig, open_database
from interlock.db.schema import read_tables
from interlock.log.checkpoint import write_checkpoint
from interlock.log.kinds import SessionRenamed
from interlock.log.read import LOG_START, read_all, read_stream
from interlock.sessions.models import Role
from interlock.wiring.projections import verify
from tests.harness.questions import QuestionHarness
from tests.harness.store import StoreHarness, open_store
from tests.harness.tasks import TaskHarness


async def filled(store: StoreHarness) -> None:
    session = await store.sessions.create(opened_by="test", session_id="talk", title="日本")
    await store.sessions.append_message(session.id, Role.user, "hello")
    gone = await store.sessions.create(opened_by="test", session_id="gone")
    await store.delete(gone.id, who="test")
    erased = await store.sessions.create(opened_by="test", session_id="erased", title="secret plans")
    await store.delete(erased.id, who="test")
    await store.erase(erased.id)
    asked = QuestionHarness(store, (await store.sessions.create(opened_by="test", session_id="asked")).id)
    await asked.ask()
    for name in ("gone_on", "parked"):
        await store.sessions.create(opened_by="test", session_id=name)
    await asked.desk.answer((await asked.ask()).id, {"confirmed": True}, who="test")
    await store.settings.update({"tools": {"fs": {"enabled": False}}}, who="test")
    await store.leases.take(session.id, "worker")
    shop = TaskHarness(store)
    await shop.put("gone_on")
    task, _ = await shop.parked("parked")
    assert task.mode is not None
    await write_checkpoint(store.log)


def contents(store: StoreHarness) -> dict:
    tables = {
        "sessions": "id",
        "event_texts": "stream, seq",
        "stream_heads": "stream",
        "settings_versions": "version",
        "store_info": "key",
        "questions": "id",
        "tasks": "id",
    }
    found = {
        table: store.query(f"SELECT * FROM {table} ORDER BY {order}") for table, order in tables.items()
    }
    found["events"] = store.query(
        "SELECT stream, seq, facts, content, salt, content_hash, hash FROM events ORDER BY stream, seq"
    )
    return found


def checked(connection) -> None:
    assert verify(connection).ok


@pytest.fixture(params=["sqlite", "postgresql"])
def target(request, tmp_path) -> StoreConfig:
    if request.param == "sqlite":
        return StoreConfig(f"sqlite:///{tmp_path}/restored/interlock.db", busy_timeout_seconds=2)
    return request.getfixturevalue("empty_postgres")


async def test_a_backup_restores_into_either_database(store, target, tmp_path):
    await filled(store)
    create_backup(store.database, tmp_path / "b.zip")
    assert restore(target, tmp_path / "b.zip", replace_existing=False, check=checked) is None
    again = open_store(target)
    assert contents(again) == contents(store)
    recorded = await again.log.append("talk", SessionRenamed(who="t", title="it goes on"))
    assert recorded[0].seq == 3
    with again.database.reading() as connection:
        assert verify(connection).ok
        assert len(read_all(connection, after=LOG_START)) == len(contents(store)["events"]) + 1
    again.close()


async def test_after_a_restore_the_next_checkpoint_covers_what_is_new(store, target, tmp_path):
    """What checkpoints cover is read from the chain, so it means the same in another database."""
    await filled(store)
    await store.log.append("talk", SessionRenamed(who="t", title="after the checkpoint"))
    create_backup(store.database, tmp_path / "b.zip")
    restore(target, tmp_path / "b.zip", replace_existing=False, check=checked)
    again = open_store(target)
    await write_checkpoint(again.log)
    with again.database.reading() as connection:
        heads = read_stream(connection, "system", after_seq=2)[-1].event().heads
    assert [head[:2] for head in heads] == [["talk", 3]]
    again.close()


async def test_a_backup_of_an_older_schema_is_upgraded_on_the_way(tmp_path, sqlite_store):
    await sqlite_store.sessions.create(opened_by="x", title="kept", session_id="old")
    connection = sqlite_store.config.connect()
    connection.change("ALTER TABLE sessions DROP COLUMN mode")
    members = {}
    for table, described in read_tables(connection).items():
        if table.startswith(LEFT_OUT):
            continue
        columns = [column.name for column in described]
        rows = connection.query(f"SELECT * FROM {table}")
        plain = [[v.hex() if isinstance(v, bytes) else v for v in row] for row in rows]
        lines = b"".join(orjson.dumps(row) + b"\n" for row in plain)
        members[table] = (columns, len(rows), lines)
    connection.close()
    with zipfile.ZipFile(tmp_path / "old.zip", "w") as archive:
        tables = {}
        for table, (columns, count, lines) in members.items():
            archive.writestr(f"{table}.jsonl", lines)
            tables[table] = {"columns": columns, "rows": count, "sha256": sha256(lines).hexdigest()}
        manifest = {"application": "interlock", "format": 1, "schema": "0001", "tables": tables}
        archive.writestr("manifest.json", orjson.dumps(manifest))
    target = StoreConfig(f"sqlite:///{tmp_path}/new/interlock.db")
    restore(target, tmp_path / "old.zip", replace_existing=False, check=checked)
    again = open_store(target)
    assert again.query("SELECT id, title, mode FROM sessions") == [("old", "kept", "chat_safe")]
    again.close()


async def test_a_store_is_not_replaced_by_accident(store, tmp_path):
    await filled(store)
    create_backup(store.database, tmp_path / "b.zip")
    before = contents(store)
    with pytest.raises(UserError, match="--replace"):
        restore(store.config, tmp_path / "b.zip", replace_existing=False, check=checked)
    assert contents(store) == before


async def test_a_store_is_replaced_when_asked_and_the_old_one_kept(sqlite_config, tmp_path):
    store = open_store(sqlite_config)
    await filled(store)
    create_backup(store.database, tmp_path / "b.zip")
    before = contents(store)
    await store.sessions.create(opened_by="test", session_id="later")
    with pytest.raises(StoreLocked):
        restore(
            StoreConfig(sqlite_config.url, busy_timeout_seconds=0.2),
            tmp_path / "b.zip",
            replace_existing=True,
            check=checked,
        )
    store.close()
    kept = restore(sqlite_config, tmp_path / "b.zip", replace_existing=True, check=checked)
    again = open_store(sqlite_config)
    assert contents(again) == before
    again.close()
    old = open_store(StoreConfig(f"sqlite:///{kept}"))
    assert ("later",) in old.query("SELECT id FROM sessions")
    old.close()
    assert sqlite_config.path.stat().st_mode & 0o077 == 0


async def test_postgres_is_replaced_when_asked(postgres_server, tmp_path):
    with postgres_server.database() as config:
        store = open_store(config)
        await filled(store)
        create_backup(store.database, tmp_path / "b.zip")
        before = contents(store)
        await store.sessions.create(opened_by="test", session_id="later")
        store.close()
        restore(config, tmp_path / "b.zip", replace_existing=True, check=checked)
        again = open_store(config)
        assert contents(again) == before
        again.close()


def rewritten(source, target, change) -> None:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))


async def test_a_damaged_backup_replaces_nothing(sqlite_store, target, tmp_path):
    await filled(sqlite_store)
    good = tmp_path / "b.zip"
    create_backup(sqlite_store.database, good)
    rewritten(
        good,
        tmp_path / "changed.zip",
        lambda name, data: data.replace(b"hello", b"HELLO") if "texts" in name else data,
    )
    (tmp_path / "cut.zip").write_bytes(good.read_bytes()[:-200])
    (tmp_path / "text.zip").write_text("not a zip")
    rewritten(
        good,
        tmp_path / "other.zip",
        lambda name, data: b'{"application":"x"}' if name[0:4] == "mani" else data,
    )
    for name in ("changed", "cut", "text", "other", "missing"):
        with pytest.raises(UserError) as raised:
            restore(target, tmp_path / f"{name}.zip", replace_existing=False, check=checked)
        assert "\n" not in str(raised.value)
    restore(target, good, replace_existing=False, check=checked)


async def test_a_backup_that_does_not_verify_replaces_nothing(sqlite_store, target, tmp_path):
    await filled(sqlite_store)
    sqlite_store.execute("UPDATE event_texts SET text = 'forged' WHERE stream = 'talk'")
    create_backup(sqlite_store.database, tmp_path / "b.zip")

    def check(connection) -> None:
        report = verify(connection)
        if not report.ok:
            raise UserError(str(report.faults[0]))

    with pytest.raises(UserError, match="search index was changed"):
        restore(target, tmp_path / "b.zip", replace_existing=False, check=check)
    if target.is_sqlite:
        assert target.path.stat().st_size == 0
        left = sorted(path.name for path in target.path.parent.iterdir())
        assert left == ["interlock.db", "interlock.db.in-use"]
    else:
        fresh = open_database(target)
        with fresh.reading() as connection:
            assert connection.query("SELECT count(*) FROM events") == [(0,)]
        fresh.close()


async def test_a_backup_from_the_future_is_refused(sqlite_store, target, tmp_path):
    create_backup(sqlite_store.database, tmp_path / "b.zip")

    def newer(name: str, data: bytes) -> bytes:
        return orjson.dumps(orjson.loads(data) | {"schema": "9999"}) if name == "manifest.json" else data

    rewritten(tmp_path / "b.zip", tmp_path / "newer.zip", newer)
    with pytest.raises(StoreTooNew):
        restore(target, tmp_path / "newer.zip", replace_existing=False, check=checked)


async def test_a_backup_never_overwrites_a_file_and_is_private(sqlite_store, tmp_path):
    create_backup(sqlite_store.database, tmp_path / "b.zip")
    assert (tmp_path / "b.zip").stat().st_mode & 0o077 == 0
    with pytest.raises(UserError, match="never overwrites"):
        create_backup(sqlite_store.database, tmp_path / "b.zip")
    with pytest.raises(UserError, match="cannot be written"):
        create_backup(sqlite_store.database, tmp_path / "no" / "such" / "b.zip")
    assert [path.name for path in tmp_path.glob("*.interlock-new")] == []
