"""A private key whose block is longer than a page and its margins: no way of reading it shows a line of it.

An export of several PGP keys is one such block. Its first line is far away from most of what is shown.
"""

import random
import re
import string

import pytest

from tests.harness.store import StoreHarness
from tests.harness.tool_calls import ToolHarness

LINES = 2500
_MATERIAL = re.compile(r"[A-Za-z0-9+/]{24,}")
_SIGNS = string.ascii_letters + string.digits + "+/"


def block(kind: str = "PGP PRIVATE KEY BLOCK", lines: int = LINES) -> str:
    chosen = random.Random(7)
    body = "\n".join("".join(chosen.choices(_SIGNS, k=64)) for _ in range(lines))
    return f"-----BEGIN {kind}-----\n\n{body}\n=aB3d\n-----END {kind}-----\n"


@pytest.fixture
async def bench(sqlite_store: StoreHarness, tmp_path):
    session = await sqlite_store.sessions.create(opened_by="test")
    made = ToolHarness(sqlite_store, session.id, tmp_path)
    await made.open_sandbox()
    made.write("keys.asc", f"exported today\n{block()}that was all\n")
    yield made
    await made.backend.close()


def leaked(text: str) -> list[str]:
    return _MATERIAL.findall(text)


@pytest.mark.parametrize(
    "call", [("read_file", {"path": "keys.asc"}), ("bash", {"cmd": "cat keys.asc"})], ids=["file", "output"]
)
async def test_no_page_shows_a_line_of_it(bench: ToolHarness, call):
    name, arguments = call
    shown, cursor = "", None
    for _ in range(20):
        result = await bench.call(name, **arguments, **({"cursor": cursor} if cursor else {}))
        assert result.ok, result
        shown += result.stdout
        cursor = result.next_page_cursor
        if cursor is None:
            break
    assert leaked(shown) == []
    assert shown.startswith("exported today\n")
    assert shown.endswith("that was all\n")


@pytest.mark.parametrize(
    "begin",
    [
        {"start_line": 1500, "line_count": 3},
        {"offset": 100_000, "limit_bytes": 700},
        # The margin then begins inside the block's own first line.
        *({"offset": 16 * 1024 + cut, "limit_bytes": 700} for cut in (16, 20, 30, 40, 50, 54)),
    ],
    ids=str,
)
async def test_none_is_shown_by_beginning_inside_it(bench: ToolHarness, begin):
    result = await bench.call("read_file", path="keys.asc", **begin)
    assert result.ok
    assert leaked(result.stdout) == []


async def test_none_is_shown_by_a_search(bench: ToolHarness):
    result = await bench.call("search_files", path="keys.asc", pattern="^[A-D]")
    assert result.stdout.count("\n") > 50
    assert leaked(result.stdout) == []


async def test_none_is_shown_as_progress(bench: ToolHarness):
    script = "head -c 60000 keys.asc; sleep 1.2; sed -n '1000,1100p' keys.asc"
    assert (await bench.call("bash", cmd=script)).ok
    assert leaked("\n".join(bench.progress)) == []


async def test_what_follows_a_long_block_or_is_none_is_shown(bench: ToolHarness):
    bench.write("after.txt", f"{block()}'quoted' {'aB3' * 20}\n" + f"{'xY7z' * 16}\n" * 1000)
    result = await bench.call("read_file", path="after.txt", offset=220_000, limit_bytes=300)
    assert leaked(result.stdout)
    bench.write("certificate.pem", block("CERTIFICATE"))
    result = await bench.call("read_file", path="certificate.pem", start_line=1500, line_count=3)
    assert len(leaked(result.stdout)) == 3
