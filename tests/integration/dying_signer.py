"""A process that writes checkpoints or sends anchors, and kills itself at one moment of it.

python -m tests.integration.dying_signer URL FOLDER MOMENT
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interlock.core.files import NewFile
from interlock.db.database import StoreConfig
from interlock.log import checkpoint
from interlock.log.checkpoint import rotate_key, write_checkpoint
from interlock.log.signing import SigningKey, SigningKeyStore
from interlock.runtime.anchor_sender import AnchorSender
from interlock.runtime.anchor_sinks import FileSink
from tests.harness.store import StoreHarness, open_store


def die(*_given: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def after(place: Any, name: str) -> None:
    """Die right after this function."""
    real = getattr(place, name)

    def replaced(*given: Any, **options: Any) -> None:
        real(*given, **options)
        die()

    setattr(place, name, replaced)


def before(place: Any, name: str) -> None:
    setattr(place, name, die)


class DyingSink(FileSink):
    async def send(self, anchor: checkpoint.Anchor) -> None:
        await super().send(anchor)
        die()


async def check(store: StoreHarness, keys: SigningKeyStore) -> None:
    await write_checkpoint(store.log, keys)


async def rotate(store: StoreHarness, keys: SigningKeyStore) -> None:
    await rotate_key(store.log, keys, keys.create(), who="ada")
    die()


async def send(store: StoreHarness, keys: SigningKeyStore) -> None:
    await write_checkpoint(store.log, keys)
    await AnchorSender(store.database, store.log, [DyingSink(FOLDER / "anchors")]).finish()


FOLDER = Path(sys.argv[2])
# What is prepared, and what is then done.
MOMENTS: dict[str, tuple[Callable[[], None], Callable[[StoreHarness, SigningKeyStore], Any]]] = {
    "the key file is not there yet": (lambda: before(NewFile, "replace"), check),
    "between the key file and the first checkpoint": (lambda: after(SigningKeyStore, "create"), check),
    "between a checkpoint and its signature": (lambda: before(SigningKey, "sign"), check),
    "between a checkpoint and the last anchor": (
        lambda: before(SigningKeyStore, "keep_last_anchor"),
        check,
    ),
    "between a new key and its rotation": (lambda: after(SigningKeyStore, "create"), rotate),
    "between a rotation and the first checkpoint": (lambda: None, rotate),
    "between a sink and the row that says so": (lambda: None, send),
}


async def main(url: str, moment: str) -> None:
    prepare, act = MOMENTS[moment]
    prepare()
    store = open_store(StoreConfig(url))
    await act(store, SigningKeyStore(FOLDER / "signing"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[3]))
