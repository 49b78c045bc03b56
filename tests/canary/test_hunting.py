"""The hunter itself: it sees a canary in every encoding and in pieces, and none where there is none."""

import base64
import json
import os
import zipfile
from urllib.parse import quote

import pytest

from interlock.db.database import StoreConfig
from tests.canary.canaries import Canaries
from tests.canary.hunting import Hunter, files_below, hunt, tables_of

FORMS = {
    "plain": lambda secret: secret.encode(),
    "in another case": lambda secret: secret.upper().encode(),
    "a part of it": lambda secret: b"..." + secret[3:11].encode() + b"...",
    "base64": lambda secret: base64.b64encode(secret.encode()),
    "base64 behind one": lambda secret: base64.b64encode(b"x" + secret.encode()),
    "base64 behind two": lambda secret: base64.b64encode(b"xy" + secret.encode() + b"zzz"),
    "url-safe base64": lambda secret: base64.urlsafe_b64encode(b"~~" + secret.encode()),
    "half of its base64": lambda secret: base64.b64encode(secret.encode())[:28],
    "hex": lambda secret: secret.encode().hex().encode(),
    "upper-case hex": lambda secret: secret.encode().hex().upper().encode(),
    "half of its hex": lambda secret: secret.encode().hex()[:40].encode(),
    "URL": lambda secret: quote(secret, safe="").encode(),
    "JSON": lambda secret: json.dumps(secret).encode(),
    "JSON twice": lambda secret: json.dumps(json.dumps(secret)).encode(),
    "UTF-16": lambda secret: secret.encode("utf-16-le"),
    "UTF-16, the other way": lambda secret: secret.encode("utf-16-be"),
    "UTF-16 as text": lambda secret: "\ufffd".join(secret).encode(),
}


@pytest.fixture
def canaries() -> Canaries:
    return Canaries()


@pytest.mark.parametrize("form", FORMS)
def test_a_canary_is_seen_in_every_form(canaries, form):
    hunter = Hunter(canaries)
    for canary in canaries:
        seen = hunter.hunt({"here": b"before " + FORMS[form](canary.secret) + b" behind"})
        assert {(sighting.place, sighting.kind) for sighting in seen} == {("here", canary.kind)}


def test_nothing_is_seen_where_there_is_none(canaries):
    hashes = b"".join(os.urandom(32).hex().encode() for _ in range(300))
    innocent = b"ordinary words, 0123456789abcdef, user=ada password=***REDACTED***\n" * 1000
    places = {"noise": os.urandom(40_000), "hashes": hashes, "innocent": innocent}
    assert hunt(canaries, places | {"base64": base64.b64encode(os.urandom(20_000))}) == []


def test_files_archives_and_tables_are_looked_into(canaries, sqlite_config: StoreConfig, tmp_path):
    secret = canaries["a GitHub token"].secret
    folder = tmp_path / "folder"
    folder.mkdir()
    with zipfile.ZipFile(folder / "backup.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("events.jsonl", f"x {secret} x" * 3)
    (folder / f"of {secret}").touch()
    connection = sqlite_config.connect()
    connection.change("INSERT INTO store_info (key, value) VALUES ('canary', ?)", (secret,))
    connection.close()
    seen = hunt(canaries, files_below(folder) | tables_of(sqlite_config))
    assert {sighting.place for sighting in seen} == {
        "backup.zip: events.jsonl",
        f"name of of {secret}",
        "table store_info",
    }
    assert hunt(canaries, files_below(folder, besides=[folder])) == []
