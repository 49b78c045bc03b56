"""How one event is bound to all before it. Any language can check it: see docs/events.md.

    hash = sha256(prev_hash ‖ header ‖ sha256(payload))

The payload enters only by its hash, so it can be erased later and the chain still holds.
"""

import random
import time
from hashlib import sha256

import orjson

from interlock.infra.records import dataclass

GENESIS = b"\0" * 32


@dataclass(frozen=True, slots=True)
class Header:
    """What can never be erased about an event."""

    id: str
    time_us: int
    stream: str
    seq: int
    task: str | None
    parent: str | None
    kind: str

    def encoded(self) -> bytes:
        return encode_header(
            self.id, self.time_us, self.stream, self.seq, self.task, self.parent, self.kind
        )


def encode_header(*fields: str | int | None) -> bytes:
    """A JSON array without spaces, in the order of `Header`'s fields."""
    return orjson.dumps(fields)


def link(prev_hash: bytes, header: bytes, payload_hash: bytes) -> bytes:
    return sha256(prev_hash + header + payload_hash).digest()


def new_id() -> str:
    """A fresh id that sorts by its time: 48 bits of milliseconds, then 80 random bits, in hex.

    Unique, not secret: a system call for each id would hand the interpreter to another thread.
    """
    milliseconds = time.time_ns() // 1_000_000
    return f"{milliseconds:012x}{random.getrandbits(80):020x}"


def now_us() -> int:
    return time.time_ns() // 1000
