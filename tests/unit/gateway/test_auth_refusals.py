"""Refused logins are told, hold nobody up, and no secret is anywhere."""

import logging
from dataclasses import asdict

import pytest

from interlock.core.errors import UserError
from interlock.db.schema import read_tables
from interlock.gateway import auth
from interlock.gateway.auth import CredentialKind, CredentialService, LoginRefused
from interlock.redaction.redactor import Redactor
from tests.unit.gateway.credential_book import Clock, kinds, told


async def test_refused_logins_are_written_down_and_not_without_end(store):
    clock = Clock()
    credentials = CredentialService(store.database, store.log, Redactor(), clock=clock)
    for _ in range(25):
        with pytest.raises(LoginRefused, match="new link"):
            await credentials.redeem_code("ilc_" + "x" * 43, browser_days=1)
    assert kinds(store) == ["auth.login_refused"] * 10
    clock.now += 60
    with pytest.raises(LoginRefused):
        await credentials.redeem_code("nonsense", browser_days=1)
    assert told(store)[-1] == {
        "kind": "auth.login_refused",
        "credential_id": "",
        "reason": "wrong",
        "unrecorded": 15,
    }


async def test_wrong_codes_are_found_out_without_the_writer(credentials, store, monkeypatch):
    """Whoever guesses must not hold up what others write."""
    used = await credentials.issue_code(who="x")
    await credentials.redeem_code(used, browser_days=1)
    transactions = []
    transact = store.log.transact

    async def counted(stream, work):
        transactions.append(stream)
        return await transact(stream, work)

    monkeypatch.setattr(store.log, "transact", counted)
    for code in ("ilc_" + "x" * 43, used, "nonsense"):
        with pytest.raises(LoginRefused):
            await credentials.redeem_code(code, browser_days=1)
    assert transactions == []


async def test_no_secret_is_in_any_row_file_or_log_line(
    store, store_config, credentials, capfd, caplog, runs
):
    caplog.set_level(logging.DEBUG)
    token = await credentials.add_token("ci", who="local:ada")
    code = await credentials.issue_code(who="local:ada")
    browser = await credentials.redeem_code(code, browser_days=1)
    unused = await credentials.issue_code(who="local:ada")
    await credentials.check_bearer(token.secret)
    with pytest.raises(LoginRefused):
        await credentials.redeem_code(code, browser_days=1)
    with pytest.raises(UserError) as refused:
        await credentials.revoke(unused, runs, who=f"somebody with {token.secret}")
    await credentials.issue_code(who=f"somebody with {token.secret}")
    await credentials.end_browser(browser.secret, who="x")
    with store.database.reading() as connection:
        tables = list(read_tables(connection))
    everything = repr([store.query(f"SELECT * FROM {table}") for table in tables])
    everything += repr([asdict(one) for one in await credentials.list()]) + str(refused.value)
    everything += "".join(capfd.readouterr()) + caplog.text
    if store_config.is_sqlite:
        folder = store_config.path.parent
        everything += "".join(path.read_bytes().decode("latin-1") for path in folder.glob("interlock.db*"))
    for secret in (token.secret, code, browser.secret, unused):
        assert secret not in everything
        assert secret[4:] not in everything


def test_own_secrets_are_redacted_wherever_they_stand():
    redactor = Redactor()
    for kind in CredentialKind:
        for _ in range(20):
            secret = auth.new_secret(kind)
            for text in (secret, f"http://127.0.0.1:8420/#code={secret}", f"({secret}).", f"x_{secret}!"):
                assert secret[8:40] not in redactor.text(text), text
