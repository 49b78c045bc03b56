"""A code lets one browser in once and for a short time, and its cookie ends."""

import asyncio
import re

import pytest

from interlock.core.errors import UserError
from interlock.gateway import auth
from interlock.gateway.auth import ClientIdentity, CredentialKind, CredentialService, LoginRefused
from interlock.redaction.redactor import Redactor
from tests.harness.store import open_store
from tests.unit.gateway.credential_book import kinds, later, told


async def test_a_code_becomes_a_cookie_of_whoever_made_it(store, credentials):
    code = await credentials.issue_code(who="local:ada")
    assert re.fullmatch(r"ilc_[A-Za-z0-9_-]{43}", code)
    browser = await credentials.redeem_code(code, browser_days=30)
    assert re.fullmatch(r"ilb_[A-Za-z0-9_-]{43}", browser.secret)
    assert browser.who == ClientIdentity("local:ada", browser.id, CredentialKind.browser)
    assert await credentials.check_cookie(browser.secret) == browser.who
    issued, login = told(store)
    assert (issued["kind"], login["kind"]) == ("auth.code_issued", "auth.login")
    assert login["code_id"] == issued["credential_id"]
    assert login["credential_id"] == browser.id


async def test_a_used_code_lets_nobody_in(store, credentials):
    code = await credentials.issue_code(who="x")
    first = await credentials.redeem_code(code, browser_days=1)
    with pytest.raises(LoginRefused):
        await credentials.redeem_code(code, browser_days=1)
    assert told(store)[-1]["reason"] == "used"
    # Whoever came in stays in.
    assert await credentials.check_cookie(first.secret) is not None


async def test_an_old_code_lets_nobody_in(store, credentials, monkeypatch):
    code = await credentials.issue_code(who="x")
    in_time = await credentials.issue_code(who="x")
    later(monkeypatch, 595)
    await credentials.redeem_code(in_time, browser_days=1)
    later(monkeypatch, 6)
    with pytest.raises(LoginRefused):
        await credentials.redeem_code(code, browser_days=1)
    assert told(store)[-1]["reason"] == "old"


async def test_a_revoked_code_lets_nobody_in(store, credentials, runs):
    code = await credentials.issue_code(who="x")
    (open_code,) = await credentials.list()
    await credentials.revoke(open_code.id, runs, who="x")
    with pytest.raises(LoginRefused):
        await credentials.redeem_code(code, browser_days=1)
    assert told(store)[-1]["reason"] == "revoked"


async def test_of_many_who_bring_one_code_at_once_one_gets_in(store, credentials):
    code = await credentials.issue_code(who="x")
    tries = (credentials.redeem_code(code, browser_days=1) for _ in range(20))
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(outcome, LoginRefused) for outcome in outcomes) == 19
    assert kinds(store).count("auth.login") == 1
    assert store.query("SELECT count(*) FROM credentials WHERE kind = 'browser'") == [(1,)]


async def test_of_two_processes_with_one_code_one_gets_in(store_config, store, credentials):
    other = open_store(store_config)
    try:
        elsewhere = CredentialService(other.database, other.log, Redactor())
        for _ in range(5):
            code = await credentials.issue_code(who="x")
            outcomes = await asyncio.gather(
                *(one.redeem_code(code, browser_days=1) for one in (credentials, elsewhere)),
                return_exceptions=True,
            )
            assert sum(isinstance(outcome, LoginRefused) for outcome in outcomes) == 1
    finally:
        other.close()
    assert kinds(store).count("auth.login") == 5


async def test_a_cookie_ends_with_its_days(credentials, monkeypatch):
    browser = await credentials.redeem_code(await credentials.issue_code(who="x"), browser_days=30)
    later(monkeypatch, 30 * 86_400 - 5)
    assert await credentials.check_cookie(browser.secret) is not None
    later(monkeypatch, 6)
    assert await credentials.check_cookie(browser.secret) is None
    assert await credentials.list() == ()


async def test_after_the_logout_the_cookie_is_worth_nothing(store, credentials):
    browser = await credentials.redeem_code(await credentials.issue_code(who="x"), browser_days=1)
    assert await credentials.still_valid(browser.who)
    for _ in range(2):
        await credentials.end_browser(browser.secret, who="x")
    assert await credentials.check_cookie(browser.secret) is None
    assert not await credentials.still_valid(browser.who)
    assert kinds(store).count("auth.logout") == 1


async def test_a_browser_can_be_revoked_by_its_id_and_not_by_a_name(credentials, runs):
    browser = await credentials.redeem_code(await credentials.issue_code(who="ada"), browser_days=1)
    with pytest.raises(UserError):
        await credentials.revoke("ada", runs, who="x")
    await credentials.revoke(browser.id, runs, who="x")
    assert await credentials.check_cookie(browser.secret) is None


async def test_what_ended_long_ago_is_swept_a_few_at_a_time(store, credentials, monkeypatch, runs):
    monkeypatch.setattr(auth, "_SWEPT_AT_ONCE", 3)
    for _ in range(5):
        await credentials.issue_code(who="x")
    kept = await credentials.add_token("kept", who="x")
    await credentials.add_token("gone", who="x")
    await credentials.revoke("gone", runs, who="x")
    later(monkeypatch, 31 * 86_400)
    left = []
    for _ in range(3):
        await credentials.issue_code(who="x")
        left.append(store.query("SELECT count(*) FROM credentials")[0][0])
    assert left == [5, 3, 4]
    assert await credentials.check_bearer(kept.secret) is not None
