"""What can become of a request to Telegram instead of an ordinary answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.harness.telegram_validation import refusal


@dataclass(frozen=True)
class InjectedFault:
    """What becomes of one request instead of an ordinary answer."""

    status: int = 200
    body: str | Mapping[str, Any] = ""
    # It is done, and only the answer is another or gets lost.
    after_effect: bool = False
    drops: bool = False
    seconds: float = 0.0


def flood(seconds: int) -> InjectedFault:
    description = f"Too Many Requests: retry after {seconds}"
    return InjectedFault(429, {**refusal(429, description), "parameters": {"retry_after": seconds}})


LOST = InjectedFault(drops=True)
LOST_AFTER = InjectedFault(drops=True, after_effect=True)
BAD_GATEWAY = InjectedFault(502, "<html><body>Bad Gateway</body></html>")
INTERNAL = InjectedFault(500, refusal(500, "Internal Server Error"))
CONFLICT = InjectedFault(409, refusal(409, "Conflict: terminated by other getUpdates request"))
UNAUTHORIZED = InjectedFault(401, refusal(401, "Unauthorized"))
BLOCKED = InjectedFault(403, refusal(403, "Forbidden: bot was blocked by the user"))
