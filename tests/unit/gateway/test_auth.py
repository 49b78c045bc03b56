"""Who may come in: single use, short lives, revocation that other processes see, and no secret anywhere."""

import asyncio
import re
from dataclasses import asdict

import pytest

from interlock.events.feed import whole_stream
from interlock.gateway import auth
from interlock.gateway.auth import Credentials, Kind, LoginRefused, Who
from interlock.infra.errors import PersonError, StoreFull
from interlock.redaction.redactor import Redactor
from interlock.store.tables import metadata
from tests.conftest import open_store

DAY_US = 86_400_000_000


@pytest.fixture
def credentials(store) -> Credentials:
    return Credentials(store.database, store.log, Redactor())


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def later(monkeypatch, seconds: float) -> None:
    """What the clock on the wall says to the credentials, from here on."""
    before = auth.now_us
    monkeypatch.setattr(auth, "now_us", lambda: before() + int(seconds * 1_000_000))


def told(store) -> list[dict]:
    with store.database.reading() as connection:
        return [{"kind": e.header.kind, **e.event().payload()} for e in whole_stream(connection, "system")]


def kinds(store) -> list[str]:
    return [event["kind"] for event in told(store)]


# -- tokens --


async def test_a_token_lets_in_whoever_has_it_under_its_name(store, credentials):
    token = await credentials.add_token("ci", who="local:ada")
    assert re.fullmatch(r"ilk_[A-Za-z0-9_-]{43}", token.secret)
    assert await credentials.check_bearer(token.secret) == Who("ci", token.id, Kind.token)
    assert told(store) == [
        {"kind": "auth.token_added", "credential_id": token.id, "name": "ci", "who": "local:ada"}
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
    with pytest.raises(PersonError):
        await credentials.add_token(name, who="x")
    assert await credentials.list() == ()
    assert told(store) == []


async def test_a_secret_is_no_name(credentials):
    with pytest.raises(PersonError, match="looks like"):
        await credentials.add_token("ghp_" + "6EcVsEys" + "hSPgK7FZuWCF" + "PKWCO4NvnU5DuIzN", who="x")


async def test_two_live_tokens_never_have_one_name(credentials):
    made = await asyncio.gather(
        *(credentials.add_token("ci", who="x") for _ in range(5)), return_exceptions=True
    )
    assert sum(isinstance(one, PersonError) for one in made) == 4
    await credentials.revoke("ci", who="x")
    await credentials.add_token("ci", who="x")
    assert [one.name for one in await credentials.list()] == ["ci"]


async def test_a_revoked_token_lets_nobody_in(store, credentials):
    by_name = await credentials.add_token("one", who="x")
    by_id = await credentials.add_token("two", who="x")
    await credentials.revoke("one", who="local:ada")
    revoked = await credentials.revoke(by_id.id, who="local:ada")
    assert revoked.name == "two"
    assert await credentials.check_bearer(by_name.secret) is None
    assert await credentials.check_bearer(by_id.secret) is None
    with pytest.raises(PersonError, match="interlock token list"):
        await credentials.revoke("one", who="x")
    assert told(store)[-1] == {
        "kind": "auth.token_revoked",
        "credential_id": by_id.id,
        "name": "two",
        "who": "local:ada",
        "credential_kind": "token",
    }


async def test_what_another_process_revoked_is_refused_here(store_config, credentials):
    token = await credentials.add_token("ci", who="x")
    who = await credentials.check_bearer(token.secret)
    assert who is not None
    assert await credentials.still_valid(who)
    other = open_store(store_config)
    try:
        await Credentials(other.database, other.log, Redactor()).revoke("ci", who="elsewhere")
        assert await credentials.check_bearer(token.secret) is None
        async with asyncio.timeout(2):
            while await credentials.still_valid(who):
                await asyncio.sleep(0.05)
    finally:
        other.close()


async def test_an_open_socket_is_told_of_a_revocation_at_the_next_look(credentials):
    token = await credentials.add_token("ci", who="x")
    who = await credentials.check_bearer(token.secret)
    assert await credentials.still_valid(who)
    await credentials.revoke("ci", who="x")
    assert not await credentials.still_valid(who)
    assert not await credentials.still_valid(Who("ci", "c_0000000000000000", Kind.token))


async def test_many_open_sockets_ask_the_store_once(store, monkeypatch):
    clock = Clock()
    credentials = Credentials(store.database, store.log, Redactor(), clock=clock)
    token = await credentials.add_token("ci", who="x")
    who = Who("ci", token.id, Kind.token)
    looked = []
    glance = store.database.glance
    monkeypatch.setattr(store.database, "glance", lambda *given: looked.append(given) or glance(*given))
    assert all(await asyncio.gather(*(credentials.still_valid(who) for _ in range(500))))
    assert len(looked) == 1
    clock.now += auth.CHECKED_SECONDS
    assert await credentials.still_valid(who)
    assert len(looked) == 2


async def test_what_is_remembered_of_sockets_is_bounded(credentials, monkeypatch):
    monkeypatch.setattr(auth, "MAX_CHECKED", 10)
    for number in range(50):
        await credentials.still_valid(Who("x", f"c_{number}", Kind.token))
    assert len(credentials._checked) <= 10


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


# -- codes and browsers --


async def test_a_code_becomes_a_cookie_of_whoever_made_it(store, credentials):
    code = await credentials.issue_code(who="local:ada")
    assert re.fullmatch(r"ilc_[A-Za-z0-9_-]{43}", code)
    browser = await credentials.redeem_code(code, browser_days=30)
    assert re.fullmatch(r"ilb_[A-Za-z0-9_-]{43}", browser.secret)
    assert browser.who == Who("local:ada", browser.id, Kind.browser)
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


async def test_a_revoked_code_lets_nobody_in(store, credentials):
    code = await credentials.issue_code(who="x")
    (open_code,) = await credentials.list()
    await credentials.revoke(open_code.id, who="x")
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
        elsewhere = Credentials(other.database, other.log, Redactor())
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


async def test_a_browser_can_be_revoked_by_its_id_and_not_by_a_name(credentials):
    browser = await credentials.redeem_code(await credentials.issue_code(who="ada"), browser_days=1)
    with pytest.raises(PersonError):
        await credentials.revoke("ada", who="x")
    await credentials.revoke(browser.id, who="x")
    assert await credentials.check_cookie(browser.secret) is None


async def test_what_ended_long_ago_is_swept_a_few_at_a_time(store, credentials, monkeypatch):
    monkeypatch.setattr(auth, "_SWEPT_AT_ONCE", 3)
    for _ in range(5):
        await credentials.issue_code(who="x")
    kept = await credentials.add_token("kept", who="x")
    await credentials.add_token("gone", who="x")
    await credentials.revoke("gone", who="x")
    later(monkeypatch, 31 * 86_400)
    left = []
    for _ in range(3):
        await credentials.issue_code(who="x")
        left.append(store.query("SELECT count(*) FROM credentials")[0][0])
    assert left == [5, 3, 4]
    assert await credentials.check_bearer(kept.secret) is not None


# -- refusals --


async def test_refused_logins_are_written_down_and_not_without_end(store):
    clock = Clock()
    credentials = Credentials(store.database, store.log, Redactor(), clock=clock)
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


# -- secrets --


async def test_no_secret_is_in_any_row_file_or_log_line(store, store_config, credentials, capfd):
    token = await credentials.add_token("ci", who="local:ada")
    code = await credentials.issue_code(who="local:ada")
    browser = await credentials.redeem_code(code, browser_days=1)
    unused = await credentials.issue_code(who="local:ada")
    await credentials.check_bearer(token.secret)
    with pytest.raises(LoginRefused):
        await credentials.redeem_code(code, browser_days=1)
    with pytest.raises(PersonError) as refused:
        await credentials.revoke(unused, who=f"somebody with {token.secret}")
    await credentials.issue_code(who=f"somebody with {token.secret}")
    await credentials.end_browser(browser.secret, who="x")
    everything = repr([store.query(f"SELECT * FROM {table}") for table in metadata.tables])
    everything += repr([asdict(one) for one in await credentials.list()]) + str(refused.value)
    everything += "".join(capfd.readouterr())
    if store_config.is_sqlite:
        folder = store_config.path.parent
        everything += "".join(path.read_bytes().decode("latin-1") for path in folder.glob("interlock.db*"))
    for secret in (token.secret, code, browser.secret, unused):
        assert secret not in everything
        assert secret[4:] not in everything
        assert auth.hash_of(secret).hex() not in repr(told(store))


def test_own_secrets_are_redacted_wherever_they_stand():
    redactor = Redactor()
    for kind in Kind:
        for _ in range(20):
            secret = auth.new_secret(kind)
            for text in (secret, f"http://127.0.0.1:8420/#code={secret}", f"({secret}).", f"x_{secret}!"):
                assert secret[8:40] not in redactor.text(text), text
