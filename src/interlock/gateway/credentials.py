"""The table of credentials, and the secrets whose hashes it holds."""

import re
import secrets
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from interlock.db.driver import Row
from interlock.log.auth_events import (
    AuthCodeIssued,
    AuthEvent,
    AuthLogin,
    AuthLogout,
    AuthTokenAdded,
    AuthTokenRevoked,
)
from interlock.log.hash_chain import EventHeader
from interlock.log.projections import ProjectedRow, Projection

_COLUMNS = "id, kind, name, hash, created_us, created_by, expires_us, used_us, ended_us, ended_by"

BY_HASH = f"SELECT {_COLUMNS} FROM credentials WHERE hash = ?"  # noqa: S608
IS_LIVE = "ended_us IS NULL AND (expires_us IS NULL OR expires_us > ?)"
LIVE = f"SELECT {_COLUMNS} FROM credentials WHERE {IS_LIVE} ORDER BY created_us, id"  # noqa: S608
LIVE_BY_ID = f"SELECT 1 FROM credentials WHERE id = ? AND {IS_LIVE}"  # noqa: S608
LIVE_TOKEN = f"SELECT 1 FROM credentials WHERE kind = 'token' AND name = ? AND {IS_LIVE}"  # noqa: S608
NAMED = f"""
SELECT {_COLUMNS} FROM credentials WHERE id = ? OR (kind = 'token' AND name = ? AND {IS_LIVE})
"""  # noqa: S608
# Of two concurrent attempts, one changes the row and the other finds it ended.
REDEEM = f"""
UPDATE credentials SET used_us = ?
WHERE hash = ? AND kind = 'code' AND used_us IS NULL AND {IS_LIVE}
"""  # noqa: S608
# Locked before what the credential started is cancelled: until the commit, nothing new can start with it.
LOCK_LIVE = f"{LIVE_BY_ID} {{FOR_UPDATE}}"
NOTE_USE = "UPDATE credentials SET used_us = ? WHERE id = ? AND (used_us IS NULL OR used_us < ?)"
SWEEP = """
DELETE FROM credentials WHERE id IN (
    SELECT id FROM credentials WHERE ended_us < ? OR expires_us < ? ORDER BY created_us LIMIT ?
)
"""

SECRET = re.compile(r"il[kcb]_[A-Za-z0-9_-]{43}")


class CredentialKind(StrEnum):
    token = "token"  # noqa: S105 - a kind, not a secret
    code = "code"
    browser = "browser"


_PREFIXES = {CredentialKind.token: "ilk_", CredentialKind.code: "ilc_", CredentialKind.browser: "ilb_"}


@dataclass(frozen=True, slots=True)
class Credential:
    """A row of the table, without the hash."""

    id: str
    kind: CredentialKind
    name: str
    created_us: int
    created_by: str
    expires_us: int | None
    used_us: int | None
    ended_us: int | None
    ended_by: str | None

    def is_live(self, at_us: int) -> bool:
        return self.ended_us is None and (self.expires_us is None or self.expires_us > at_us)


def new_credential_id() -> str:
    return f"c_{secrets.token_hex(8)}"


def new_secret(kind: CredentialKind) -> str:
    return _PREFIXES[kind] + secrets.token_urlsafe(32)


def has_secret_format(secret: str, kind: CredentialKind) -> bool:
    return secret.startswith(_PREFIXES[kind]) and SECRET.fullmatch(secret) is not None


def hash_secret(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "replace")).digest()


def hash_text(secret: str) -> str:
    """The hash as events have it."""
    return hash_secret(secret).hex()


def credential_from_row(row: Row) -> Credential:
    identity, kind, name, _, *rest = row
    return Credential(identity, CredentialKind(kind), name, *rest)


def _rows_of(event: AuthEvent, _header: EventHeader) -> list[ProjectedRow]:
    named = [event.credential_id, event.code_id] if isinstance(event, AuthLogin) else [event.credential_id]
    return [{"id": identity} for identity in named]


def _evolve(row: ProjectedRow | None, event: AuthEvent, header: EventHeader) -> ProjectedRow | None:
    if row is not None:
        if row["ended_us"] is not None:
            # Revoked later, for what it had started.
            return row
        # Revoked, logged out, or a code that was redeemed.
        return row | {"ended_us": header.time_us, "ended_by": event.who}
    match event:
        case AuthTokenAdded():
            kind, expires_us = CredentialKind.token, None
        case AuthCodeIssued(expires_us=expires_us):
            kind = CredentialKind.code
        case AuthLogin(expires_us=expires_us):
            kind = CredentialKind.browser
        case _:
            return None
    return {
        "id": event.credential_id,
        "kind": kind.value,
        "name": event.name,
        "hash": bytes.fromhex(event.secret_hash),
        "created_us": header.time_us,
        "created_by": event.who,
        "expires_us": expires_us,
        "ended_us": None,
        "ended_by": None,
    }


# The last use is not covered: it has no event.
CREDENTIALS = Projection(
    table="credentials",
    noun="credential",
    key=("id",),
    columns=("kind", "name", "hash", "created_us", "created_by", "expires_us", "ended_us", "ended_by"),
    kinds=(AuthTokenAdded, AuthCodeIssued, AuthLogin, AuthTokenRevoked, AuthLogout),
    rows_of=_rows_of,
    evolve=_evolve,
    may_be_missing=True,
)
