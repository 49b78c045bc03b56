"""Credentials: tokens for scripts, one-time login codes, and the browser cookies they become.

A secret is shown once, when it is created: the store has only its hash. Every check reads the store, so
that a revocation by another process takes effect here as well.
"""

import asyncio
import hmac
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from interlock.core.errors import StoreError, UserError
from interlock.core.text import sanitize_text
from interlock.db.database import Database
from interlock.gateway.credentials import (
    BY_HASH,
    LIVE,
    LIVE_BY_ID,
    LIVE_TOKEN,
    LOCK_LIVE,
    NAMED,
    NOTE_USE,
    REDEEM,
    SWEEP,
    Credential,
    CredentialKind,
    credential_from_row,
    has_secret_format,
    hash_secret,
    hash_text,
    new_credential_id,
    new_secret,
)
from interlock.gateway.login_rate_limit import LogThrottle
from interlock.log.auth_events import (
    AuthCodeIssued,
    AuthLogin,
    AuthLoginRefused,
    AuthLogout,
    AuthTokenAdded,
    AuthTokenRevoked,
)
from interlock.log.hash_chain import now_us
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.writer import EventLog, Transaction
from interlock.redaction.redactor import Redactor
from interlock.runtime.workflow_runs import RevokedWork, WorkflowRunService

TOKEN_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
# Such a name could be mistaken for an id or a secret.
RESERVED_TOKEN_NAME = re.compile(r"c_[0-9a-f]{16}|il[kcb]_.*")

UNKNOWN = "there is no token or browser with that id or name; to list them: interlock token list"
CODE_SECONDS = 600
MAX_ACTOR_CHARS = 200
# A socket checked at least once a second is closed within two seconds of the revocation.
CHECKED_SECONDS = 0.5
MAX_CHECKED = 4096

_SECOND_US = 1_000_000
_DAY_US = 86_400 * _SECOND_US
# The precision of the last use; each update is a write.
_USE_US = 3600 * _SECOND_US
# Ended credentials are kept this long, then deleted a few at a time.
_KEPT_US = 30 * _DAY_US
_SWEPT_AT_ONCE = 200
# The reason shown in the transcript of a cancelled task. A code starts none.
REASONS = {
    CredentialKind.token: "the token that started it was revoked",
    CredentialKind.browser: "the browser that started it was logged out by the operator",
    CredentialKind.code: "",
}


class LoginRefused(UserError):
    """The code is wrong, used or expired; the client does not learn which."""

    code = "LOGIN_REFUSED"


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """An authenticated client. `name` is the actor in events."""

    name: str
    credential_id: str
    kind: CredentialKind


@dataclass(frozen=True, slots=True)
class NewToken:
    id: str
    name: str
    secret: str


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A logged-in browser. `secret` is the cookie's value."""

    secret: str
    id: str
    who: ClientIdentity


@dataclass(frozen=True, slots=True)
class RevocationResult:
    credential: Credential
    ended: RevokedWork


class CredentialService:
    """Creates, checks and revokes credentials.

    All changes go through the `system` stream, which serialises them.
    """

    def __init__(
        self,
        database: Database,
        log: EventLog,
        redactor: Redactor,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._events = log
        self._redactor = redactor
        self._clock = clock
        self._recordable = LogThrottle(clock=clock)
        self._unrecorded = 0
        self._checked: dict[str, tuple[float, bool]] = {}
        self._checking = asyncio.Lock()

    # -- creation --

    async def add_token(self, name: str, *, who: str) -> NewToken:
        """Create a token for a script. Its name is the actor in events."""
        self._refuse_name(name)
        made = NewToken(new_credential_id(), name, new_secret(CredentialKind.token))
        author = self._line(who)

        def work(transaction: Transaction) -> NewToken:
            transaction.next_seq()
            if transaction.connection.query(LIVE_TOKEN, (name, now_us())):
                raise UserError(f"the token {name} already exists; revoke it first, or choose another name")
            transaction.record(
                AuthTokenAdded(
                    credential_id=made.id, name=name, who=author, secret_hash=hash_text(made.secret)
                )
            )
            return made

        return await self._events.transact(SYSTEM_STREAM, work)

    async def issue_code(self, *, who: str, ttl_seconds: float = CODE_SECONDS) -> str:
        """Create a code that logs in one browser as `who`, once, before it expires."""
        identity, secret, author = new_credential_id(), new_secret(CredentialKind.code), self._line(who)

        def work(transaction: Transaction) -> str:
            transaction.next_seq()
            created_us = now_us()
            expires_us = created_us + int(ttl_seconds * _SECOND_US)
            long_ago = created_us - _KEPT_US
            transaction.connection.change(SWEEP, (long_ago, long_ago, _SWEPT_AT_ONCE))
            transaction.record(
                AuthCodeIssued(
                    credential_id=identity,
                    name=author,
                    who=author,
                    secret_hash=hash_text(secret),
                    expires_us=expires_us,
                )
            )
            return secret

        return await self._events.transact(SYSTEM_STREAM, work)

    async def redeem_code(self, code: str, *, browser_days: float) -> BrowserSession:
        """Exchange a code for a cookie. Of two concurrent attempts, one succeeds."""
        digest, identity, secret = (
            hash_secret(code),
            new_credential_id(),
            new_secret(CredentialKind.browser),
        )

        def work(transaction: Transaction) -> BrowserSession | None:
            transaction.next_seq()
            now = now_us()
            if transaction.connection.change(REDEEM, (now, digest, now)) != 1:
                return None
            used = credential_from_row(transaction.connection.query(BY_HASH, (digest,))[0])
            expires_us = now + int(browser_days * _DAY_US)
            transaction.record(
                AuthLogin(
                    credential_id=identity,
                    name=used.name,
                    who=used.name,
                    code_id=used.id,
                    secret_hash=hash_text(secret),
                    expires_us=expires_us,
                )
            )
            return BrowserSession(
                secret, identity, ClientIdentity(used.name, identity, CredentialKind.browser)
            )

        # Reject a wrong code by a read: guesses must not occupy the writer.
        if await self.is_live_code(code):
            session = await self._events.transact(SYSTEM_STREAM, work)
            if session is not None:
                return session
        await self._record_refusal(digest)
        raise LoginRefused("the code is wrong, already used or expired; get a new link")

    # -- checks --

    async def is_live_code(self, code: str) -> bool:
        if not has_secret_format(code, CredentialKind.code):
            return False
        rows = await self._database.fetch(BY_HASH, (hash_secret(code),))
        found = credential_from_row(rows[0]) if rows else None
        return found is not None and found.kind is CredentialKind.code and found.is_live(now_us())

    async def check_bearer(self, secret: str) -> ClientIdentity | None:
        return await self._check(secret, CredentialKind.token)

    async def check_cookie(self, secret: str) -> ClientIdentity | None:
        return await self._check(secret, CredentialKind.browser)

    async def still_valid(self, who: ClientIdentity) -> bool:
        """Whether the credential of an open socket is valid.

        Cached: reads the store at most twice a second.
        """
        known = self._known(who.credential_id)
        if known is not None:
            return known
        async with self._checking:
            known = self._known(who.credential_id)
            return await self.is_live(who) if known is None else known

    async def is_live(self, who: ClientIdentity) -> bool:
        """Whether the credential is valid in the store now, including revocations by other processes."""
        known = bool(await self._database.fetch(LIVE_BY_ID, (who.credential_id, now_us())))
        if len(self._checked) >= MAX_CHECKED:
            self._checked.clear()
        self._checked[who.credential_id] = (self._clock(), known)
        return known

    async def list(self) -> tuple[Credential, ...]:
        """The valid credentials, oldest first."""
        rows = await self._database.read(lambda db: db.query(LIVE, (now_us(),)))
        return tuple(credential_from_row(row) for row in rows)

    # -- revocation --

    async def revoke(self, id_or_name: str, runs: WorkflowRunService, *, who: str) -> RevocationResult:
        """Revoke a token, cookie or code permanently, and cancel every task and run that it started.

        It is named by its id, a token also by its name. One that was logged out or expired can be named
        while something that it started still runs.
        """
        named, author = sanitize_text(id_or_name), self._line(who)

        def work(transaction: Transaction) -> RevocationResult:
            transaction.next_seq()
            now = now_us()
            rows = transaction.connection.query(NAMED, (named, named, now))
            if not rows:
                raise UserError(UNKNOWN)
            found = credential_from_row(rows[0])
            was_live = bool(transaction.connection.query(LOCK_LIVE, (found.id, now)))
            ended = runs.cancel_by_credential(transaction, found.id, author, REASONS[found.kind])
            if not was_live and not ended.sessions:
                raise UserError(UNKNOWN)
            transaction.record(
                AuthTokenRevoked(
                    credential_id=found.id,
                    name=found.name,
                    who=author,
                    credential_kind=found.kind.value,
                    cancelled_tasks=ended.tasks,
                    stopped_runs=ended.runs,
                )
            )
            return RevocationResult(found, ended)

        revoked = await self._events.transact(SYSTEM_STREAM, work, on_full_disk=True)
        runs.notify(revoked.ended.sessions)
        self._checked.pop(revoked.credential.id, None)
        return revoked

    async def end_browser(self, secret: str, *, who: str) -> None:
        """Log out: invalidate the cookie."""
        present = await self._check(secret, CredentialKind.browser)
        if present is None:
            return
        author, identity = self._line(who), present.credential_id

        def work(transaction: Transaction) -> None:
            transaction.next_seq()
            if transaction.connection.query(LOCK_LIVE, (identity, now_us())):
                transaction.record(AuthLogout(credential_id=identity, name=present.name, who=author))

        await self._events.transact(SYSTEM_STREAM, work, on_full_disk=True)
        self._checked.pop(identity, None)

    async def _check(self, secret: str, kind: CredentialKind) -> ClientIdentity | None:
        if not has_secret_format(secret, kind):
            return None
        digest = hash_secret(secret)
        rows = await self._database.fetch(BY_HASH, (digest,))
        if not rows or not hmac.compare_digest(bytes(rows[0][3]), digest):
            return None
        found, now = credential_from_row(rows[0]), now_us()
        if found.kind is not kind or not found.is_live(now):
            return None
        if found.used_us is None or found.used_us < now - _USE_US:
            await self._note_use(found, now)
        return ClientIdentity(found.name, found.id, found.kind)

    async def _note_use(self, found: Credential, now: int) -> None:
        def work(transaction: Transaction) -> None:
            transaction.next_seq()
            transaction.connection.change(NOTE_USE, (now, found.id, now - _USE_US))

        # With a full disk, people can still read.
        with suppress(StoreError):
            await self._events.transact(SYSTEM_STREAM, work)

    async def _record_refusal(self, digest: bytes) -> None:
        """Record refused logins, a few a minute: an attacker must not fill the log."""
        if not self._recordable.take():
            self._unrecorded += 1
            return
        unrecorded, self._unrecorded = self._unrecorded, 0
        rows = await self._database.fetch(BY_HASH, (digest,))
        known = credential_from_row(rows[0]) if rows else None
        if known is None or known.kind is not CredentialKind.code:
            identity, reason = "", "wrong"
        elif known.ended_us is None:
            identity, reason = known.id, "old"
        else:
            identity, reason = known.id, "revoked" if known.used_us is None else "used"
        event = AuthLoginRefused(credential_id=identity, reason=reason, unrecorded=unrecorded)
        await self._events.append(SYSTEM_STREAM, event)

    def _known(self, credential_id: str) -> bool | None:
        checked = self._checked.get(credential_id)
        return checked[1] if checked and self._clock() - checked[0] < CHECKED_SECONDS else None

    def _refuse_name(self, name: str) -> None:
        if not TOKEN_NAME.fullmatch(name):
            raise UserError("a token's name must have 1 to 64 letters, digits, dots, dashes or underscores")
        if RESERVED_TOKEN_NAME.fullmatch(name) or self._redactor.text(name) != name:
            raise UserError("that name looks like an id or a secret; choose another name")

    def _line(self, text: str) -> str:
        return self._redactor.text(sanitize_text(" ".join(text.split())))[:MAX_ACTOR_CHARS]
