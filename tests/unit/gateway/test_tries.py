"""Rates: whoever tries too often is slowed down, and nobody is kept out for it."""

from interlock.gateway.login_rate_limit import (
    LOGINS_PER_SECOND,
    LOGINS_PER_SECOND_PER_ADDRESS,
    MAX_TRACKED_ADDRESSES,
    LoginRateLimiter,
    LogThrottle,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def taken(tries: LoginRateLimiter, address: str, times: int) -> int:
    return sum(tries.take(address) for _ in range(times))


def test_one_address_does_not_use_up_the_tries_of_others():
    tries = LoginRateLimiter(Clock())
    assert taken(tries, "192.0.2.1", 5000) == 2 * LOGINS_PER_SECOND_PER_ADDRESS
    assert tries.take("192.0.2.2")


def test_a_flood_is_over_a_moment_after_it_ends():
    clock = Clock()
    tries = LoginRateLimiter(clock)
    taken(tries, "127.0.0.1", 5000)
    assert not tries.take("127.0.0.1")
    clock.now += 0.1
    assert tries.take("127.0.0.1")


def test_all_together_have_a_limit_and_are_not_remembered_without_end():
    tries = LoginRateLimiter(Clock())
    addresses = [f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}" for n in range(2 * MAX_TRACKED_ADDRESSES)]
    assert sum(map(tries.take, addresses)) == 2 * LOGINS_PER_SECOND
    assert len(tries._of_one) == MAX_TRACKED_ADDRESSES


def test_who_has_a_network_of_addresses_is_one():
    tries = LoginRateLimiter(Clock())
    addresses = [f"2001:db8:1:2::{n:x}" for n in range(1, 501)]
    assert sum(map(tries.take, addresses)) == 2 * LOGINS_PER_SECOND_PER_ADDRESS
    assert tries.take("2001:db8:1:3::1")
    # What is no address is one as well.
    assert taken(tries, "", 500) == taken(LoginRateLimiter(Clock()), "fe80::1%eth0", 500)


def test_a_few_a_minute_are_told_and_then_a_few_more():
    clock = Clock()
    told = LogThrottle(3, clock=clock)
    assert [told.take() for _ in range(5)] == [True, True, True, False, False]
    clock.now += 59
    assert not told.take()
    clock.now += 1
    assert [told.take() for _ in range(4)] == [True, True, True, False]
