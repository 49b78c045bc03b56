"""Who may come in is in no backup, and nobody comes in by a restore."""

import zipfile

import pytest

from interlock.db.backup_and_restore import create_backup, restore
from interlock.db.database import StoreConfig
from interlock.db.upgrade import upgrade
from interlock.gateway.auth import CredentialService
from interlock.redaction.redactor import Redactor
from interlock.wiring.projections import verify
from tests.harness.store import open_store


def checked(connection) -> None:
    assert verify(connection).ok


def credentials_of(store) -> CredentialService:
    return CredentialService(store.database, store.log, Redactor())


@pytest.fixture
def elsewhere(request, store_config) -> StoreConfig:
    """A store of the other database."""
    if not store_config.is_sqlite:
        return request.getfixturevalue("sqlite_config")
    config = request.getfixturevalue("empty_postgres")
    upgrade(config)
    return config


async def test_a_restored_store_lets_nobody_in(store, elsewhere, tmp_path):
    here = credentials_of(store)
    token = await here.add_token("ci", who="x")
    browser = await here.redeem_code(await here.issue_code(who="x"), browser_days=1)
    create_backup(store.database, tmp_path / "b.zip")
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        assert "credentials.jsonl" not in archive.namelist()
    before = open_store(elsewhere)
    stranger = await credentials_of(before).add_token("stranger", who="x")
    before.close()
    restore(elsewhere, tmp_path / "b.zip", replace_existing=True, check=checked)
    again = open_store(elsewhere)
    there = credentials_of(again)
    assert await there.check_bearer(token.secret) is None
    assert await there.check_bearer(stranger.secret) is None
    assert await there.check_cookie(browser.secret) is None
    assert await there.list() == ()
    await there.add_token("ci", who="x")
    again.close()
