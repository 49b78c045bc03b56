"""A token lets in whoever has it under its name, until it is revoked."""

import asyncio
import re

import pytest

from interlock.core.errors import StoreFull, UserError
from interlock.gateway.auth import ClientIdentity, CredentialKind, LoginRefused
from interlock.gateway.credentials import hash_text
from tests.unit.gateway.credential_book import kinds, later, told


async def test_a_token_lets_in_whoever_has_it_under_its_name(store, credentials):
    token = await credentials.add_token("ci", who="local:ada")
    assert re.fullmatch(r"ilk_[A-Za-z0-9_-]{43}", token.secret)
    assert await credentials.check_bearer(token.secret) == ClientIdentity(
        "ci", token.id, CredentialKind.token
    )
    assert told(store) == [
        {
            "kind": "auth.token_added",
            "credential_id": token.id,
            "name": "ci",
            "who": "local:ada",
            "secret_hash": hash_text(token.secret),
        }
    ]


async def test_a_wrong_token_lets_nobody_in(credentials):
    secret = (await credentials.add_token("ci", who="x")).secret
    other = secret[:-1] + ("A" if secret[-1] != "A" else "B")
    for wrong in (
        "",
        "ilk_",
        other,
        secret[:-1],
        secret + "A",
        secret.upper(),
        f" {secret}",
        f"{secret}\n",
    ):
        assert await credentials.check_bearer(wrong) is None, wrong
    for odd in ("\x00", "\ud800", "ilk_" + "\u00e9" * 43, "x" * 100_000, "' OR 1=1 --"):
        assert await credentials.check_bearer(odd) is None
        assert await credentials.check_cookie(odd) is None


async def test_a_secret_of_one_kind_is_worth_nothing_as_another(store, credentials):
    token = await credentials.add_token("ci", who="x")
    code = await credentials.issue_code(who="x")
    browser = await credentials.redeem_code(await credentials.issue_code(who="x"), browser_days=1)
    assert await credentials.check_cookie(token.secret) is None
    assert await credentials.check_bearer(browser.secret) is None
    assert await credentials.check_bearer(code) is None
    assert await credentials.check_cookie(code) is None
    for secret in (token.secret, browser.secret):
        with pytest.raises(LoginRefused):
            await credentials.redeem_code(secret, browser_days=1)
    # Also not if somebody gave the row another kind: the secret's own form says what it is.
    store.execute("UPDATE credentials SET kind = 'browser' WHERE id = ?", token.id)
    assert await credentials.check_bearer(token.secret) is None
    assert await credentials.check_cookie(token.secret) is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a b",
        "a/b",
        "x" * 65,
        "ad\u00e4",
        "a\n",
        "a:b",
        "\ud800",
        "c_0123456789abcdef",
        "ilk_x",
        "ilb_" + "x" * 43,
    ],
)
async def test_a_name_that_cannot_be_one_is_refused(store, credentials, name):
    with pytest.raises(UserError):
        await credentials.add_token(name, who="x")
    assert await credentials.list() == ()
    assert told(store) == []


async def test_a_secret_is_no_name(credentials):
    with pytest.raises(UserError, match="looks like"):
        await credentials.add_token("ghp_" + "6EcVsEys" + "hSPgK7FZuWCF" + "PKWCO4NvnU5DuIzN", who="x")


async def test_two_live_tokens_never_have_one_name(credentials, runs):
    made = await asyncio.gather(
        *(credentials.add_token("ci", who="x") for _ in range(5)), return_exceptions=True
    )
    assert sum(isinstance(one, UserError) for one in made) == 4
    await credentials.revoke("ci", runs, who="x")
    await credentials.add_token("ci", who="x")
    assert [one.name for one in await credentials.list()] == ["ci"]


async def test_a_revoked_token_lets_nobody_in(store, credentials, runs):
    by_name = await credentials.add_token("one", who="x")
    by_id = await credentials.add_token("two", who="x")
    await credentials.revoke("one", runs, who="local:ada")
    revoked = await credentials.revoke(by_id.id, runs, who="local:ada")
    assert revoked.credential.name == "two"
    assert await credentials.check_bearer(by_name.secret) is None
    assert await credentials.check_bearer(by_id.secret) is None
    with pytest.raises(UserError, match="interlock token list"):
        await credentials.revoke("one", runs, who="x")
    assert told(store)[-1] == {
        "kind": "auth.token_revoked",
        "credential_id": by_id.id,
        "name": "two",
        "who": "local:ada",
        "credential_kind": "token",
        "cancelled_tasks": 0,
        "stopped_runs": 0,
    }


async def test_the_last_use_is_known_to_the_hour_and_costs_no_more_writes(store, credentials, monkeypatch):
    token = await credentials.add_token("ci", who="x")
    assert (await credentials.list())[0].used_us is None
    for _ in range(3):
        await credentials.check_bearer(token.secret)
    first = (await credentials.list())[0].used_us
    assert first is not None
    later(monkeypatch, 1800)
    await credentials.check_bearer(token.secret)
    assert (await credentials.list())[0].used_us == first
    later(monkeypatch, 1801)
    await credentials.check_bearer(token.secret)
    assert (await credentials.list())[0].used_us > first
    assert kinds(store) == ["auth.token_added"]


async def test_somebody_comes_in_although_the_use_cannot_be_noted(store, credentials, monkeypatch):
    token = await credentials.add_token("ci", who="x")

    async def full(*_given, **_options):
        raise StoreFull("the disk is full")

    monkeypatch.setattr(store.log, "transact", full)
    assert await credentials.check_bearer(token.secret) is not None
