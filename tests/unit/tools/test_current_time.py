"""`current_time`: real clock, named zones, clear faults."""

import time
from datetime import UTC, datetime

import pytest

from interlock.core.errors import ErrorCode, ToolError
from interlock.tools.builtins.current_time import CurrentTimeTool
from interlock.tools.tool import ToolContext

CONTEXT = ToolContext("s")


async def told(arguments):
    tool = CurrentTimeTool()
    prepared = await tool.prepare(tool.parser().parse(arguments), CONTEXT)
    return await tool.execute(prepared, CONTEXT)


async def test_it_tells_the_time_in_utc_by_default():
    before = int(time.time())
    result = await told({})
    stamp, zone, _day = result.stdout.split()
    assert before <= datetime.fromisoformat(stamp).timestamp() <= time.time()
    assert zone == "UTC"
    assert before <= result.meta["unix_seconds"] <= time.time()


async def test_it_tells_the_time_in_a_named_zone():
    result = await told({"timezone": "Asia/Shanghai"})
    assert "+08:00 Asia/Shanghai" in result.stdout
    stamp = datetime.fromisoformat(result.stdout.split()[0])
    assert abs((stamp - datetime.now(UTC)).total_seconds()) < 5


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "../../etc/passwd", "/etc/localtime", "\0", "Europe", " "]
)
async def test_a_zone_that_does_not_exist_is_a_clear_fault(zone):
    with pytest.raises(ToolError, match="no time zone") as raised:
        await told({"timezone": zone})
    assert raised.value.error_code is ErrorCode.INVALID_ARGS
