"""The kinds of events about access over the network.

None contains a secret; `secret_hash` is the sha256 of one of 256 random bits.
"""

from dataclasses import dataclass

from interlock.log.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthEvent(Event):
    """`name` is the identity of the credential, `who` the actor of the event."""

    # Names and ids of our own making; a person's text was sanitized before.
    outside = ()
    credential_id: str
    name: str
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthTokenAdded(AuthEvent):
    kind = "auth.token_added"
    secret_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthTokenRevoked(AuthEvent):
    """`credential_kind` is token, browser, or code for a login link that was not opened yet.

    `cancelled_tasks` and `stopped_runs` count what it had started, which ends in the same transaction.
    """

    kind = "auth.token_revoked"
    credential_kind: str
    cancelled_tasks: int = 0
    stopped_runs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthCodeIssued(AuthEvent):
    """A login link was issued, valid for one browser, once."""

    kind = "auth.code_issued"
    secret_hash: str
    expires_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthLogin(AuthEvent):
    """A browser logged in by a link. The credential is its cookie; `code_id` is the link's."""

    kind = "auth.login"
    code_id: str
    secret_hash: str
    expires_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthLoginRefused(Event):
    """`reason` is wrong, used, revoked or old; `unrecorded` counts refusals before it without an event."""

    kind = "auth.login_refused"
    outside = ()
    credential_id: str
    reason: str
    unrecorded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthLogout(AuthEvent):
    kind = "auth.logout"


AUTH_EVENTS = (
    AuthTokenAdded,
    AuthTokenRevoked,
    AuthCodeIssued,
    AuthLogin,
    AuthLoginRefused,
    AuthLogout,
)
