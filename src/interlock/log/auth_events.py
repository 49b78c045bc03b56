"""The kinds of events that tell who was let in over the network, and who was not. None holds a secret."""

from dataclasses import dataclass

from interlock.log.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthEvent(Event):
    """`name` is who the credential stands for, `who` the one that did this with it."""

    # Names and ids of our own making; what a person wrote was made safe before.
    outside = ()
    credential_id: str
    name: str
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthTokenAdded(AuthEvent):
    kind = "auth.token_added"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthTokenRevoked(AuthEvent):
    """`credential_kind` is token, browser, or code for a link that nobody opened yet.

    `cancelled_tasks` and `stopped_runs` count what it had started, which ends in the same transaction.
    """

    kind = "auth.token_revoked"
    credential_kind: str
    cancelled_tasks: int = 0
    stopped_runs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthCodeIssued(AuthEvent):
    """A link was made that lets one browser in, once."""

    kind = "auth.code_issued"
    expires_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthLogin(AuthEvent):
    """A browser came in by a link. The credential is its cookie; `code_id` is the link's."""

    kind = "auth.login"
    code_id: str
    expires_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthLoginRefused(Event):
    """`reason` is wrong, used, revoked or old; `unrecorded` is how many before it were not written down."""

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
