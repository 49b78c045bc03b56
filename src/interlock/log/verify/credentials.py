"""Compares credential rows with the events about tokens, links and browsers.

A missing row is no fault, since it grants no access: ended ones are removed after a while, and backups have
none.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from interlock.db.driver import DbConnection
from interlock.log.auth_events import (
    AuthCodeIssued,
    AuthLogin,
    AuthLogout,
    AuthTokenAdded,
    AuthTokenRevoked,
)
from interlock.log.event import Event
from interlock.log.hash_chain import now_us
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.read import StoredEvent

# The rows that may still grant access.
ROWS = """
SELECT id, kind, name, expires_us FROM credentials
WHERE ended_us IS NULL AND (expires_us IS NULL OR expires_us > ?) ORDER BY id
"""
# A backup of an older schema is checked before it is upgraded.
IS_THERE = "SELECT 1 FROM sqlite_schema WHERE name = 'credentials'"

Difference = tuple[int, str, str]


@dataclass(slots=True)
class _Credential:
    seq: int
    kind: str
    name: str
    expires_us: int | None = None
    has_ended: bool = False


class CredentialVerifier:
    """Collects credentials from the events of the `system` stream."""

    def __init__(self) -> None:
        self._expected: dict[str, _Credential] = {}

    def take(self, stored: StoredEvent) -> None:
        header = stored.header
        if header.stream != SYSTEM_STREAM or not header.kind.startswith("auth."):
            return
        self._take(header.seq, stored.event())

    def _take(self, seq: int, event: Event) -> None:
        match event:
            case AuthTokenAdded(credential_id=identity, name=name):
                self._expected[identity] = _Credential(seq, "token", name)
            case AuthCodeIssued(credential_id=identity, name=name, expires_us=expires_us):
                self._expected[identity] = _Credential(seq, "code", name, expires_us)
            case AuthLogin(credential_id=identity, name=name, expires_us=expires_us):
                self._expected[identity] = _Credential(seq, "browser", name, expires_us)
                self._end(seq, event.code_id)
            case AuthTokenRevoked(credential_id=identity) | AuthLogout(credential_id=identity):
                self._end(seq, identity)
            case _:
                pass

    def _end(self, seq: int, identity: str) -> None:
        if (told := self._expected.get(identity)) is not None:
            told.seq, told.has_ended = seq, True

    def compare(self, connection: DbConnection, stream: str) -> Iterator[Difference]:
        """Where rows and events disagree: the event's number, broken or missing, and the detail."""
        if stream != SYSTEM_STREAM:
            return
        if connection.dialect == "sqlite" and not connection.query(IS_THERE):
            return
        for identity, *row in connection.query(ROWS, (now_us(),)):
            yield from self._difference(str(identity), tuple(row))

    def _difference(self, identity: str, row: tuple[Any, ...]) -> Iterator[Difference]:
        told = self._expected.get(identity)
        if told is None:
            yield 0, "broken", f"no event describes the credential {identity}"
        elif told.has_ended:
            yield told.seq, "broken", f"the credential {identity} was revoked but is active again"
        elif row != (told.kind, told.name, told.expires_us):
            yield told.seq, "broken", f"the credential {identity} was changed"
