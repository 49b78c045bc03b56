"""The hash chain over events. Any language can check it: see docs/events.md.

    content_hash = sha256(salt ‖ content)
    hash = sha256(prev_hash ‖ header ‖ sha256(facts) ‖ content_hash)

The content enters only by its hash, so it can be erased later and the chain still verifies. The salt is
erased with it: without the salt, a short text cannot be guessed from its hash.
"""

import os
import random
import time
from dataclasses import dataclass
from hashlib import blake2b, sha256

import orjson

GENESIS = b"\0" * 32
# Replaces the hash of an event without content.
NO_CONTENT = b"\0" * 32
SALT_BYTES = 16
# Its key is this process's, and stored nowhere. A system call for each salt would let another thread take
# the GIL.
_SALTS = blake2b(key=os.urandom(32), digest_size=SALT_BYTES)


@dataclass(frozen=True, slots=True)
class EventHeader:
    """The part of an event that is never erased."""

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
    """A JSON array without spaces, in the order of `EventHeader`'s fields."""
    return orjson.dumps(fields)


def chain_hash(prev_hash: bytes, header: bytes, facts: bytes, content_hash: bytes | None) -> bytes:
    return sha256(prev_hash + header + sha256(facts).digest() + (content_hash or NO_CONTENT)).digest()


def hash_content(salt: bytes, content: bytes) -> bytes:
    return sha256(salt + content).digest()


def new_salt(event_id: str) -> bytes:
    """Different for each event, and unpredictable outside this process."""
    salt = _SALTS.copy()
    salt.update(event_id.encode())
    return salt.digest()


def new_event_id() -> str:
    """A new id that sorts by time: 48 bits of milliseconds, then 80 random bits, in hex.

    Unique, not secret: a system call for each id would let another thread take the GIL.
    """
    milliseconds = time.time_ns() // 1_000_000
    return (milliseconds << 80 | random.getrandbits(80)).to_bytes(16, "big").hex()


def now_us() -> int:
    return time.time_ns() // 1000
