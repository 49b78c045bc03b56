"""Leases as table rows: one holder per key, for a limited time, by a clock that all holders share.

That clock is PostgreSQL's, or with SQLite the time since this machine started, which cannot be set. The
token only grows. Between renewals a holder checks its own deadline by `boot_clock`.
"""

import time
from collections.abc import Callable

from interlock.core.text import sanitize_text
from interlock.log.writer import Transaction

# A token begins at the database's time, so that one from before a restore never occurs again.
_TAKE = """
INSERT INTO TABLE_OF_LEASES (THE_KEY, token, holder, expires_ms)
VALUES (?, {NOW_MS}, ?, {LEASE_MS} + ?)
ON CONFLICT (THE_KEY) DO UPDATE
SET token = CASE WHEN TABLE_OF_LEASES.token < excluded.token THEN excluded.token
                 ELSE TABLE_OF_LEASES.token + 1 END,
    holder = excluded.holder, expires_ms = excluded.expires_ms
WHERE TABLE_OF_LEASES.expires_ms <= {LEASE_MS} OR TABLE_OF_LEASES.expires_ms > {LAST_LEASE_MS}
RETURNING token
"""
_RENEW = """
UPDATE TABLE_OF_LEASES SET expires_ms = {LEASE_MS} + ?
WHERE THE_KEY = ? AND token = ? AND expires_ms > {LEASE_MS}
"""
_GIVE_BACK = "UPDATE TABLE_OF_LEASES SET expires_ms = 0 WHERE THE_KEY = ? AND token = ?"
_HOLDER = "SELECT holder FROM TABLE_OF_LEASES WHERE THE_KEY = ? {FOR_UPDATE}"
_FREE = "UPDATE TABLE_OF_LEASES SET expires_ms = 0 WHERE THE_KEY = ?"
_IS_HELD = """
SELECT 1 FROM TABLE_OF_LEASES
WHERE THE_KEY = ? AND token = ? AND expires_ms > {LEASE_MS} {FOR_SHARE}
"""


def boot_clock() -> float:
    """Seconds since this machine started, suspended time included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseTable:
    """Every method needs a transaction on the stream that the key belongs to.

    The stream's head is locked first. Heads come before leases everywhere: two locks in one order cannot
    deadlock.
    """

    def __init__(self, table: str, key: str, *, seconds: float) -> None:
        def named(statement: str) -> str:
            return statement.replace("TABLE_OF_LEASES", table).replace("THE_KEY", key)

        self._take, self._renew = named(_TAKE), named(_RENEW)
        self._give_back, self._is_held = named(_GIVE_BACK), named(_IS_HELD)
        self._holder, self._free = named(_HOLDER), named(_FREE)
        self._milliseconds = int(seconds * 1000)

    def take(self, transaction: Transaction, key: str | int, holder: str) -> int | None:
        """The new holder's token, or None while the lease is held."""
        transaction.next_seq()
        rows = transaction.connection.query(self._take, (key, sanitize_text(holder), self._milliseconds))
        return int(rows[0][0]) if rows else None

    def take_over(
        self, is_gone: Callable[[str], bool] | None, transaction: Transaction, key: str | int, holder: str
    ) -> int | None:
        """Like `take`, but also from a holder that `is_gone`; it is None where that is unknown."""
        token = self.take(transaction, key, holder)
        if token is not None or is_gone is None:
            return token
        rows = transaction.connection.query(self._holder, (key,))
        if not rows or not is_gone(str(rows[0][0])):
            return None
        transaction.connection.change(self._free, (key,))
        return self.take(transaction, key, holder)

    def renew(self, transaction: Transaction, key: str | int, token: int) -> bool:
        transaction.next_seq()
        return bool(transaction.connection.change(self._renew, (self._milliseconds, key, token)))

    def release(self, transaction: Transaction, key: str | int, token: int) -> None:
        transaction.next_seq()
        transaction.connection.change(self._give_back, (key, token))

    def is_held(self, transaction: Transaction, key: str | int, token: int) -> bool:
        """Whether the lease is held; until the commit no other holder can take it."""
        return bool(transaction.connection.query(self._is_held, (key, token)))
