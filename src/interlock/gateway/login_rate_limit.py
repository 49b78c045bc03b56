"""Rate limits for logins and log lines. They refill, so that nothing stays locked.

A code has 256 random bits: guessing is hopeless at any rate. The limits bound the work that guesses cause,
and wrong codes from one client must not lock out another with a right one.
"""

import ipaddress
import time
from collections import deque
from collections.abc import Callable

LOGINS_PER_SECOND, LOGINS_PER_SECOND_PER_ADDRESS = 500.0, 50.0
MAX_TRACKED_ADDRESSES = 4096

Clock = Callable[[], float]


class TokenBucket:
    """A rate per second, with a burst of twice that."""

    def __init__(self, per_second: float, clock: Clock = time.monotonic) -> None:
        self._per_second = per_second
        self._most = max(1.0, 2 * per_second)
        self._left = self._most
        self._clock = clock
        self._at = clock()
        self.refused = 0

    def take(self, cost: int = 1) -> bool:
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._at) * self._per_second)
        self._at = now
        cost = min(cost, int(self._most))
        if self._left < cost:
            self.refused += cost
            return False
        self._left -= cost
        if self._left > self._most / 2 or self._most < 2:
            self.refused = 0
        return True


class LoginRateLimiter:
    """Limits logins overall and per address, so that one address cannot use up the limit of all."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._of_all = TokenBucket(LOGINS_PER_SECOND, clock)
        self._of_one: dict[str, TokenBucket] = {}

    def take(self, address: str) -> bool:
        name = _address_prefix(address)
        if name not in self._of_one and len(self._of_one) >= MAX_TRACKED_ADDRESSES:
            del self._of_one[next(iter(self._of_one))]
        one = self._of_one.setdefault(name, TokenBucket(LOGINS_PER_SECOND_PER_ADDRESS, self._clock))
        return one.take() and self._of_all.take()


class LogThrottle:
    """Limits log lines that any client can cause; the rest are only counted."""

    def __init__(self, most: int = 10, clock: Clock = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._times: deque[float] = deque()

    def take(self) -> bool:
        now = self._clock()
        while self._times and now - self._times[0] >= 60:
            self._times.popleft()
        if len(self._times) >= self._most:
            return False
        self._times.append(now)
        return True


def _address_prefix(address: str) -> str:
    """The address to limit by: for IPv6 the /64 prefix, since one client has all of it."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    return str(found) if found.version == 4 else str(int(found) >> 64)
