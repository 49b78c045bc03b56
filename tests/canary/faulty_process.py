"""A process that breaks in every place where Python, or a library, would tell of it by itself.

What it breaks with comes on stdin, so that its own text has no secret in it.
"""

import asyncio
import logging
import sys
import threading

from interlock.cli import main
from interlock.cli.runtime import open_cli_runtime


class Odd:
    def __init__(self, text: str) -> None:
        self.text = text

    def __del__(self) -> None:
        raise ValueError(self.text)


def break_in_thread(text: str) -> None:
    raise ValueError(text)


async def break_everywhere(text: str) -> None:
    async with open_cli_runtime():
        logging.getLogger("some.library").warning("it says %s", text)
        try:
            raise KeyError(text)
        except KeyError:
            logging.getLogger("some.library").exception("it broke")

        async def alone() -> None:
            raise OSError(text)

        task = asyncio.ensure_future(alone())
        await asyncio.wait({task})
        del task
        asyncio.get_running_loop().call_soon(lambda: break_in_thread(text))
        thread = threading.Thread(target=break_in_thread, args=(text,))
        thread.start()
        thread.join()
        Odd(text)
        await asyncio.sleep(0)


def commands():
    text = sys.stdin.read()

    def run(_tokens: list[str]) -> int:
        asyncio.run(break_everywhere(text))
        raise RuntimeError(text)

    return run


if __name__ == "__main__":
    main.build_app = commands
    main.main(["break"])
