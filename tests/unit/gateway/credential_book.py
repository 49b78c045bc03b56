"""What the credentials wrote down, and the clocks that they look at."""

from interlock.gateway import auth
from interlock.log.read import iter_stream


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def later(monkeypatch, seconds: float) -> None:
    """What the clock on the wall says to the credentials, from here on."""
    before = auth.now_us
    monkeypatch.setattr(auth, "now_us", lambda: before() + int(seconds * 1_000_000))


def told(store) -> list[dict]:
    with store.database.reading() as connection:
        return [{"kind": e.header.kind, **e.event().payload()} for e in iter_stream(connection, "system")]


def kinds(store) -> list[str]:
    return [event["kind"] for event in told(store)]
