"""What people and workers look at again and again, each as the product itself asks the store.

None of `looks` may cost more because the log has grown. What `by_nature` names grows with something of its
own: a session with its length, a day with what was done in it, a check with all there is.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.many_events import LONG_SESSION
from interlock.agent.resume import COMPACTIONS, READ_OWN_OF_TASK
from interlock.db.driver import DbConnection
from interlock.feed.entries import LAST, read_entries
from interlock.feed.follow import LAST_TASK, NEWEST
from interlock.log.export import export_events
from interlock.log.process_grouping import read_process_events
from interlock.log.read import newest_cursors, read_all
from interlock.log.stats import read_stats
from interlock.log.timeline import read_tail, read_timeline
from interlock.log.usage import read_session_usage, read_task_usage, read_usage_since
from interlock.runtime.task_rows import FIND_WORK, FIRST_OPEN, LOOK_AT, TO_STOP, list_statement
from interlock.sessions.manager import READ_SESSION, read_sessions
from interlock.sessions.models import SessionListFilter
from interlock.sessions.search import search_sessions
from interlock.sessions.slash_commands import LAST_DENIAL
from interlock.sessions.transcript import read_messages, read_messages_through_task, read_task_messages
from interlock.tools.files.read_history import READ_OUTCOMES
from interlock.wiring.projections import verify

Look = Callable[[DbConnection], object]
DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Chosen:
    """The task that is looked at: an old one in the long session, with where its message stands."""

    task: str
    message_seq: int


def looks(chosen: Chosen) -> dict[str, Look]:
    """By what they are for, with the names that people would use."""
    long, task = LONG_SESSION, chosen.task
    now = time.time_ns() // 1000
    return {
        "events tail, one session": lambda db: read_tail(db, long, limit=50),
        "events tail, of a kind that is rare": lambda db: read_tail(
            db, long, kinds=("tool_call.denied",), limit=50
        ),
        "events tail, all": lambda db: read_all(db, after=newest_cursors(db, 50)[-1], limit=50),
        "events tree, one task": lambda db: read_timeline(db, session_id=long, task_id=task, limit=2000),
        "sessions list, the first 50": lambda db: read_sessions(
            db, SessionListFilter.chats, include_archived=False, limit=50
        ),
        "open a session": lambda db: db.query(READ_SESSION, (long,)),
        "open a session: what happened last": lambda db: read_entries(
            db, long, after=_seq(db) - 200, through=LAST, limit=200
        ),
        "open a session: the task that runs": lambda db: db.query(LAST_TASK, (long,) * 4),
        "read a page of messages": lambda db: read_messages(db, long, chosen.message_seq, 200),
        "the newest event of all": lambda db: db.query(NEWEST),
        "tasks list, the newest 50": lambda db: db.query(
            list_statement(of_session=False, of_status=False), (50,)
        ),
        "tasks list, of a session": lambda db: db.query(
            list_statement(of_session=True, of_status=False), (long, 50)
        ),
        "worker: is there work": lambda db: db.query(FIND_WORK, (32, 32, 32)),
        "worker: a session's next task": lambda db: db.query(FIRST_OPEN, (long,)),
        "worker: what is to stop": lambda db: db.query(TO_STOP),
        "worker: look at a session": lambda db: db.query(LOOK_AT, (long,)),
        "budget of a day": lambda db: read_usage_since(db, now - 60_000_000),
        "task: its own past": lambda db: db.query(READ_OWN_OF_TASK, (long, task)),
        "task: its usage": lambda db: read_task_usage(db, long, task),
        "task: the last compaction": lambda db: db.query(COMPACTIONS, (long,)),
        "task: what was said for it": lambda db: read_task_messages(db, long, chosen.message_seq, task),
        "tool: what was read before": lambda db: db.query(READ_OUTCOMES, (long, 2**62)),
        "cli: the last denial": lambda db: db.query(LAST_DENIAL, (long,)),
    }


def by_nature(chosen: Chosen) -> dict[str, Look]:
    long, task = LONG_SESSION, chosen.task
    now = time.time_ns() // 1000
    return {
        "events tree, processes": read_process_events,
        "budget of a session": lambda db: read_session_usage(db, long),
        "task: what was said before it": lambda db: read_messages_through_task(db, long, task),
        "stats of a day": lambda db: read_stats(db, days=1, now_us=now),
        "search for a word that is nowhere": lambda db: search_sessions(db, "nowhere", limit=20),
        "events verify": verify,
        "events export": lambda db: sum(1 for _ in export_events(db)),
    }


def _seq(db: DbConnection) -> int:
    return int(db.query(READ_SESSION, (LONG_SESSION,))[0][7])
