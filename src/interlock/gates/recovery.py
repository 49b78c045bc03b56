"""After a crash, records every intent without an outcome, so that nothing is repeated unawares."""

import orjson

from interlock.db.driver import DbConnection
from interlock.log.kinds import (
    ToolCallCompleted,
    ToolCallDenied,
    ToolCallFailed,
    ToolCallInterrupted,
    ToolCallStarted,
)
from interlock.log.stream_appender import EventScope
from interlock.log.writer import EventLog, Transaction
from interlock.questions.rows import waiting_intents

READ_CALLS = """
SELECT id, kind, task, parent, facts FROM events
WHERE stream = ? AND kind LIKE 'tool_call.%' ORDER BY seq
"""

_OUTCOMES = frozenset(
    event.kind for event in (ToolCallCompleted, ToolCallFailed, ToolCallDenied, ToolCallInterrupted)
)


async def record_interrupted_calls(
    log: EventLog, session_id: str, *, token: int | None, on_full_disk: bool = False
) -> list[ToolCallInterrupted]:
    """Record `tool_call.interrupted` for every open intent of the session. Idempotent.

    A call whose question is open was not interrupted: it waits, and its answer will be its outcome.
    """

    def work(transaction: Transaction) -> list[ToolCallInterrupted]:
        transaction.next_seq()
        settled = []
        waiting = waiting_intents(transaction.connection, session_id)
        for intent_id, task, facts in _open_intents(transaction.connection, session_id):
            if intent_id in waiting:
                continue
            fields = orjson.loads(facts)
            interrupted = ToolCallInterrupted(
                call_id=fields["call_id"],
                tool_name=fields["tool_name"],
                mode=fields["mode"],
                authority_digest=fields["authority_digest"],
                effect=fields["effect"],
            )
            transaction.record(interrupted, EventScope(task, intent_id))
            settled.append(interrupted)
        return settled

    return await log.transact(session_id, work, token=token, on_full_disk=on_full_disk)


def _open_intents(connection: DbConnection, session_id: str) -> list[tuple[str, str | None, str]]:
    open_intents: dict[str, tuple[str, str | None, str]] = {}
    for event_id, kind, task, parent, facts in connection.query(READ_CALLS, (session_id,)):
        if kind == ToolCallStarted.kind:
            open_intents[event_id] = (event_id, task, facts)
        elif kind in _OUTCOMES:
            open_intents.pop(parent, None)
    return list(open_intents.values())
