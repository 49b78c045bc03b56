"""Backups that were cut, bent or made by somebody else: restored whole, or refused in one sentence."""

import io
import shutil
import sqlite3
import tracemalloc
import zipfile
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.core.errors import InterlockError, UserError
from interlock.db.backup_and_restore import MANIFEST, create_backup, restore
from interlock.db.database import StoreConfig
from interlock.sessions.models import Role
from interlock.wiring.projections import verify
from tests.fuzz.odd import ANYTHING, spoiled, torn, written
from tests.harness.store import StoreHarness

NO_FIXTURE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
# An upgrade of a fresh store for every try: a few of them, unless there is time.
FEW = settings(NO_FIXTURE, max_examples=settings.default.max_examples // 12)


@pytest.fixture
async def sound(sqlite_store: StoreHarness, tmp_path: Path) -> bytes:
    store = sqlite_store
    session = await store.sessions.create(opened_by="test", session_id="talk", title="日本")
    await store.sessions.append_message(session.id, Role.user, "hello")
    await store.settings.update({"tools": {"fs": {"enabled": False}}}, who="test")
    create_backup(store.database, tmp_path / "sound.zip")
    return (tmp_path / "sound.zip").read_bytes()


def must_verify(connection) -> None:
    if not verify(connection).ok:
        raise UserError("the log in the backup does not verify")


def _restore(folder: Path, data: bytes) -> None:
    source, place = folder / "b.zip", folder / "restored"
    source.write_bytes(data)
    shutil.rmtree(place, ignore_errors=True)
    config = StoreConfig(f"sqlite:///{place}/interlock.db", busy_timeout_seconds=2)
    restore(config, source, replace_existing=False, check=must_verify)


def restored(folder: Path, data: bytes) -> bool:
    """Whether it was; else it was refused in words, and nothing is left of it."""
    try:
        _restore(folder, data)
    except InterlockError as error:
        told = str(error)
    else:
        return True
    place = folder / "restored"
    assert told
    assert "\n" not in told
    assert len(told) < 500
    left = {path.name for path in place.rglob("*") if path.stat().st_size} if place.exists() else set()
    assert left <= {"interlock.db"}, left
    assert not (place / "interlock.db").exists() or (place / "interlock.db").stat().st_size == 0
    return False


def log_in(folder: Path) -> list[tuple[str, int, bytes]]:
    """Each event that was restored, by its hash, which also covers what it says."""
    with closing(sqlite3.connect(folder / "restored" / "interlock.db")) as store:
        return store.execute("SELECT stream, seq, hash FROM events ORDER BY stream, seq").fetchall()


@pytest.fixture
def whole(sound, tmp_path) -> list[tuple[str, int, bytes]]:
    assert restored(tmp_path, sound)
    log = log_in(tmp_path)
    assert log
    return log


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(files: dict[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", kind) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def agreeing(files: dict[str, bytes]) -> dict[str, bytes]:
    """With a manifest that counts and hashes what is there: only what the rows say is wrong then."""
    manifest = orjson.loads(files[MANIFEST])
    for name, entry in manifest["tables"].items():
        data = files.get(f"{name}.jsonl", b"")
        entry["rows"], entry["sha256"] = data.count(b"\n"), sha256(data).hexdigest()
    return files | {MANIFEST: orjson.dumps(manifest)}


async def test_what_is_sound_is_restored(sound, tmp_path):
    assert restored(tmp_path, sound)
    assert restored(tmp_path, zipped(agreeing(members(sound)), zipfile.ZIP_STORED))


async def test_a_damaged_length_does_not_pour_the_file_into_the_message(sound, tmp_path):
    assert sound.startswith(b"PK\x03\x04")
    # Of the first member's name, as told where it lies.
    longer = sound[:26] + (600).to_bytes(2, "little") + sound[28:]
    with pytest.raises(UserError, match="its parts do not match"):
        _restore(tmp_path, longer)
    assert not restored(tmp_path, longer)


async def test_any_torn_archive_is_refused_or_whole(sound, whole, tmp_path):
    @FEW
    @given(data=torn(sound))
    def tried(data: bytes) -> None:
        assert not restored(tmp_path, data) or log_in(tmp_path) == whole

    tried()


async def test_any_bytes_of_its_directory_may_be_wrong(sound, whole, tmp_path):
    """The headers of the archive, byte by byte: methods, flags, sizes, places."""
    begin = sound.index(b"PK\x01\x02")

    @settings(FEW, max_examples=3 * FEW.max_examples)
    @given(at=st.integers(begin, len(sound) - 1), byte=st.integers(0, 255))
    def tried(at: int, byte: int) -> None:
        spoiled_archive = sound[:at] + bytes([byte]) + sound[at + 1 :]
        assert not restored(tmp_path, spoiled_archive) or log_in(tmp_path) == whole

    tried()


async def test_any_manifest_is_one_or_refused(sound, whole, tmp_path):
    files = members(sound)

    @FEW
    @given(manifest=spoiled(orjson.loads(files[MANIFEST])))
    def tried(manifest) -> None:
        data = zipped(files | {MANIFEST: written(manifest)})
        assert not restored(tmp_path, data) or log_in(tmp_path) == whole

    tried()


async def test_no_row_of_the_log_can_be_changed_or_left_out(sound, tmp_path):
    """With the manifest as it was, and with one that agrees: then the chain itself tells."""
    files = members(sound)
    lines = files["events.jsonl"].splitlines(keepends=True)
    row = orjson.loads(lines[-1])
    [payload] = [place for place, value in enumerate(row) if str(value).startswith("{")]
    row[payload] = row[payload].replace("}", ',"more":1}', 1)
    for changed in (lines[1:], lines[:-1], [*lines[:-1], orjson.dumps(row) + b"\n"]):
        spoilt = files | {"events.jsonl": b"".join(changed)}
        assert not restored(tmp_path, zipped(spoilt))
        assert not restored(tmp_path, zipped(agreeing(spoilt)))


async def test_any_rows_are_stored_as_they_are_or_refused(sound, whole, tmp_path):
    files = members(sound)
    rows = {name: [orjson.loads(line) for line in data.splitlines()] for name, data in files.items()}
    tables = sorted(name for name in files if rows[name] and name != MANIFEST)

    @FEW
    @given(name=st.sampled_from(tables), data=st.data())
    def tried(name: str, data) -> None:
        changed = data.draw(spoiled(rows[name], ANYTHING))
        lines = changed if isinstance(changed, list) else [changed]
        text = b"".join(written(line).replace(b"\n", b" ") + b"\n" for line in lines)
        # Whatever else they say: a log that was changed is not taken.
        assert not restored(tmp_path, zipped(agreeing(files | {name: text}))) or log_in(tmp_path) == whole

    tried()


def flagged(data: bytes, offset: int, value: bytes) -> bytes:
    """All entries of the archive's directory and its local headers with these bytes."""
    for mark, shift in ((b"PK\x01\x02", 2), (b"PK\x03\x04", 0)):
        at = data.find(mark)
        while at >= 0:
            place = at + offset + shift
            data = data[:place] + value + data[place + len(value) :]
            at = data.find(mark, at + 4)
    return data


@pytest.mark.parametrize(
    ("what", "offset", "value"),
    [
        ("encrypted", 6, b"\x01\x00"),
        ("strongly encrypted", 6, b"\x41\x00"),
        ("patched", 6, b"\x20\x00"),
        ("of an unknown method", 8, b"\x63\x00"),
        ("of LZMA that is none", 8, b"\x0e\x00"),
        ("of bzip2 that is none", 8, b"\x0c\x00"),
        ("of a version to come", 4, b"\xff\x00"),
    ],
)
async def test_an_archive_that_cannot_be_opened_is_refused(sound, tmp_path, what, offset, value):
    assert not restored(tmp_path, flagged(sound, offset, value)), what


async def test_an_archive_says_where_its_parts_are_and_may_lie(sound, whole, tmp_path):
    """Far behind its end, with the sizes of ZIP64."""
    at = sound.index(b"PK\x01\x02")
    for field, size in ((42, 4), (20, 4)):
        for value in (b"\xff" * size, b"\xfe" * size, b"\x00" * size):
            lying = sound[: at + field] + value + sound[at + field + size :]
            assert not restored(tmp_path, lying) or log_in(tmp_path) == whole


async def test_other_members_are_no_business_of_a_restore(sound, tmp_path):
    more = {"../../out": b"x", "/etc/out": b"x", "events.jsonl/../../x": b"y", "a" * 500: b""}
    assert restored(tmp_path, zipped(members(sound) | more))
    assert not list(tmp_path.rglob("out"))


async def test_a_bomb_is_refused_before_it_fills_memory_or_the_disk(sound, tmp_path, monkeypatch):
    files = members(sound)
    line = files["events.jsonl"].splitlines(keepends=True)[0]
    monkeypatch.setattr("interlock.db.backup_and_restore.MAX_LINE_BYTES", 2_000_000)
    blank = b"[" + b" " * 20_000_000 + b"]\n"
    for name, data in ((MANIFEST, blank), ("events.jsonl", blank), ("events.jsonl", line * 50_000)):
        packed = zipped(files | {name: data})
        assert len(packed) < 200_000
        del data
        tracemalloc.start()
        assert not restored(tmp_path, packed)
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert held < 10_000_000, name


async def test_more_rows_than_are_told_of_are_not_even_read(sound, tmp_path):
    files = members(sound)
    lines = files["events.jsonl"].splitlines(keepends=True)
    with pytest.raises(UserError, match="events has more rows than its manifest says"):
        _restore(tmp_path, zipped(files | {"events.jsonl": b"".join(lines) + lines[0] * 1000}))
