"""Erases the content of a whole stream, in one transaction with the event that records it.

`retention.py` does so by age; it and this module alone remove anything from the log.
"""

from collections.abc import Iterable

from interlock.log.hash_chain import now_us
from interlock.log.kinds import IS_MESSAGE, LogErased
from interlock.log.projections import Projections
from interlock.log.writer import Transaction

# Content that retention erased before is covered by its own records.
TO_COVER = """
SELECT seq, time_us, content IS NOT NULL FROM events
WHERE stream = ? AND (content IS NOT NULL OR content_hash IS NULL) ORDER BY seq
"""
COUNT_MESSAGES = f"SELECT count(*) FROM events WHERE stream = ? AND {IS_MESSAGE}"  # noqa: S608 - a constant
ERASE_TEXTS = "DELETE FROM event_texts WHERE stream = ?"
ERASE_CONTENT = "UPDATE events SET content = NULL, salt = NULL WHERE stream = ?"
# A closed stream accepts no events. Files outside the store are erased for these streams.
CLOSE_STREAM = "UPDATE stream_heads SET closed_us = ? WHERE stream = ?"


def erase_stream(transaction: Transaction, projections: Projections, stream: str, who: str) -> LogErased:
    """Erase its content everywhere and close it. The caller has locked the stream."""
    connection = transaction.connection
    covered = connection.query(TO_COVER, (stream,))
    messages = connection.query(COUNT_MESSAGES, (stream,))[0][0]
    connection.change(ERASE_TEXTS, (stream,))
    projections.erase_stream(connection, stream)
    connection.change(ERASE_CONTENT, (stream,))
    connection.change(CLOSE_STREAM, (now_us(), stream))
    told = LogErased(
        who=who,
        of=stream,
        # The clock of a machine that wrote some of it may be ahead of this one.
        before_us=max(now_us(), *(time_us for _, time_us, _ in covered)) + 1,
        events=sum(1 for *_, has_content in covered if has_content),
        messages=messages,
        ranges=number_ranges(seq for seq, *_ in covered),
    )
    transaction.record(told)
    return told


def number_ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Sorted numbers as [first, last] ranges."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges
