"""Records events of a process when the store accepts them. The process itself never waits for it."""

from interlock.core.aio import Backoff
from interlock.core.errors import StatementRefused, StoreError
from interlock.core.logging import StructuredLogger
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.stream_appender import EventDraft
from interlock.log.writer import EventLog

_log = StructuredLogger(__name__)

FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.2, 10.0


async def append_with_retry(log: EventLog, draft: EventDraft) -> None:
    """Append until it is written, or never can be.

    If the reply to a commit is lost, it may have been written: then it is in the log twice, under one id.
    """
    backoff = Backoff(FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS)
    while True:
        try:
            await log.append(SYSTEM_STREAM, draft)
            return
        except StatementRefused as error:
            _log.warning("process_not_recorded", kind=draft.kind, error=str(error))
            return
        except StoreError as error:
            _log.warning("process_not_recorded_yet", kind=draft.kind, error=str(error))
        await backoff.sleep()
