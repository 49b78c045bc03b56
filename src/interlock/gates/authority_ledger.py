"""Records the Authority behind each digest, once, before the first call that is judged under it.

Every event of a tool call carries the digest of its Authority. With this record anyone can later look up
what was allowed then, and verify it against the digest.
"""

from hashlib import sha256
from typing import Any

import orjson

from interlock.db.driver import DbConnection
from interlock.log.kinds import SYSTEM_STREAM, AuthorityCompiled
from interlock.log.writer import EventLog, Transaction
from interlock.policy.authority import Authority, canonical_form

KNOWN = "SELECT 1 FROM authorities WHERE digest = ?"
ENTER = "INSERT INTO authorities (digest, seq) VALUES (?, ?)"
LOOK_UP = """
SELECT a.digest, e.facts FROM authorities a
JOIN events e ON e.stream = 'system' AND e.seq = a.seq
WHERE substr(a.digest, 1, ?) = ? ORDER BY a.seq LIMIT 2
"""


class AuthorityLedger:
    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._entered: set[str] = set()

    async def enter(self, authority: Authority) -> None:
        if authority.digest in self._entered:
            return

        def work(transaction: Transaction) -> None:
            # Locks the system stream: two processes that compile the same Authority record it once.
            transaction.next_seq()
            if transaction.connection.query(KNOWN, (authority.digest,)):
                return
            recorded = transaction.record(
                AuthorityCompiled(
                    digest=authority.digest,
                    mode=authority.mode.value,
                    allowed=list(authority.exposed),
                    form=orjson.dumps(canonical_form(authority), option=orjson.OPT_SORT_KEYS).decode(),
                )
            )
            transaction.connection.change(ENTER, (authority.digest, recorded.seq))

        await self._log.transact(SYSTEM_STREAM, work)
        self._entered.add(authority.digest)


def find_authority(connection: DbConnection, digest: str) -> dict[str, Any] | None:
    """The recorded form of a digest, or of an unambiguous prefix of one."""
    rows = connection.query(LOOK_UP, (len(digest), digest))
    if len(rows) != 1:
        return None
    told = orjson.loads(rows[0][1])
    form = str(told["form"])
    genuine = sha256(form.encode()).hexdigest() == rows[0][0]
    return {"digest": rows[0][0], "genuine": genuine, **orjson.loads(form)}
