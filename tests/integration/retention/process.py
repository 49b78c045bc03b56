"""A sweep in a process of its own, to be killed by the tests.

    python -m tests.integration.retention.process URL DAYS BATCH

It tells every erasure as a JSON line, unbuffered, right after its commit.
"""

import asyncio
import json
import os
import sys

from interlock.db.database import StoreConfig, open_database
from interlock.log import retention
from interlock.log.retention import RetentionSweeper
from interlock.log.writer import EventLog
from interlock.redaction.redactor import Redactor
from interlock.wiring.projections import PROJECTIONS


def tell(**facts: object) -> None:
    os.write(1, json.dumps(facts).encode() + b"\n")


class TellingLog(EventLog):
    async def transact(self, stream, work, **more):
        told = await super().transact(stream, work, **more)
        tell(events=told.events if told else 0)
        return told


async def sweep(url: str, days: str, batch: str) -> None:
    retention.BATCH = int(batch)
    database = open_database(StoreConfig(url, busy_timeout_seconds=30))
    log = TellingLog(database, Redactor(), PROJECTIONS)
    tell(ready=True)
    swept = await RetentionSweeper(log, database, int(days)).sweep()
    tell(done=swept.events)
    log.close()
    database.close()


if __name__ == "__main__":
    asyncio.run(sweep(*sys.argv[1:]))
