"""`search_files` where there is much to show: long lines, secrets in them, pages (S3-12.13)."""

import codecs

import pytest

from interlock.policy.authority_inputs import CallLimits
from interlock.redaction.redactor import MARK, Redactor
from interlock.sandbox.programs import RG, locate
from tests.harness.tool_calls import SECRET, ToolHarness
from tests.integration.tools.searching import found, searched_with

# -- long lines --


@pytest.mark.parametrize("at", [0, 100, 400, 5000, 99_000, 99_994])
async def test_a_long_line_is_shown_around_the_match(harness: ToolHarness, at):
    line = "ü" * at + "needle" + "ü" * (99_994 - at)
    harness.write("a.txt", f"first\n{line}\nlast\n")
    (shown,) = await found(harness, "needle")
    assert shown.startswith("a.txt:2:")
    assert "needle" in shown
    assert 200 < len(shown) < 600
    assert "\ufffd" not in shown
    assert shown.endswith("…") == (at < 99_994)
    assert shown.startswith("a.txt:2:…") == (at > 200)


async def test_a_long_utf_16_line_is_shown_around_the_match(harness: ToolHarness):
    line = "é😀" * 20_000 + "needle" + "é" * 20_000
    harness.write("a.txt", codecs.BOM_UTF16_LE + f"x\n{line}\n".encode("utf-16-le"))
    (shown,) = await found(harness, "needle")
    assert "é😀needleé" in shown
    assert len(shown) < 600


async def test_no_cut_of_a_long_line_shows_a_part_of_a_secret(harness: ToolHarness):
    lines = [
        f"{'a' * before}{SECRET}{'b' * 200}needle{'c' * 330}{SECRET}{'d' * 900}" for before in range(90)
    ]
    lines += [f"needle{'x' * behind}{SECRET}{'y' * 900}" for behind in range(460, 510)]
    harness.write("a.txt", "\n".join(lines))
    pages = await harness.pages("search_files", pattern="needle")
    shown = "".join(page.stdout for page in pages).splitlines()
    assert len(shown) == 140
    for line in shown:
        assert not any(SECRET[at : at + 6] in line for at in range(len(SECRET) - 5))
        assert line.count("***") == 2 * line.count(MARK)


async def test_a_secret_over_several_lines_is_never_shown_line_by_line(harness: ToolHarness):
    key = "-----BEGIN KEY-----\nabcdefgh\nijklmnop\n-----END KEY-----"
    harness.write("key.pem", f"# key\n{key}\n# end\n")
    result = await searched_with(harness, locate(RG, ()), ".", redactor=Redactor([key]))
    assert result.stdout == "".join(
        [
            "key.pem:1:# key\n",
            *(f"key.pem:{number}:{MARK}\n" for number in range(2, 6)),
            "key.pem:6:# end\n",
        ]
    )


# -- pages --


async def many(harness: ToolHarness, files: int = 40, lines: int = 30) -> str:
    for number in range(files):
        harness.write(f"d{number % 7}/f{number}.txt", f"needle {number}\nhay\n" * lines)
    harness.limits = CallLimits(max_output_lines=100_000, max_output_bytes=10_000_000)
    whole = await harness.ok("search_files", pattern="needle", limit=100_000)
    harness.limits = CallLimits()
    assert whole.stdout.count("\n") == files * lines
    return whole.stdout


@pytest.mark.parametrize("limit", [100, 499, 2000, None])
async def test_pages_joined_are_everything_in_one_order(harness: ToolHarness, limit):
    whole = await many(harness)
    arguments = {} if limit is None else {"limit": limit}
    pages = await harness.pages("search_files", pattern="needle", **arguments)
    assert "".join(page.stdout for page in pages) == whole
    assert len(pages) == -(-1200 // (limit or 500))
    assert all(page.truncated_lines for page in pages[:-1])
    assert not pages[-1].truncated_lines


async def test_large_output_is_cut_by_bytes_and_goes_on(harness: ToolHarness):
    whole = await many(harness)
    harness.limits = CallLimits(max_output_bytes=2000)
    pages = await harness.pages("search_files", pattern="needle")
    assert "".join(page.stdout for page in pages) == whole
    assert all(len(page.stdout.encode()) <= 2000 for page in pages)
    assert all(page.truncated_bytes for page in pages[:-1])


async def test_a_cursor_is_stale_once_what_was_shown_changed(harness: ToolHarness):
    await many(harness, 5, 5)
    first = await harness.ok("search_files", pattern="needle", limit=7)
    harness.write("d0/f0.txt", "hay\n" + "needle 0\nhay\n" * 5)
    code = await harness.refused("search_files", pattern="needle", cursor=first.next_page_cursor)
    assert code == "STALE_CURSOR"
    for path in harness.root.rglob("*.txt"):
        path.unlink()
    code = await harness.refused("search_files", pattern="needle", cursor=first.next_page_cursor)
    assert code == "STALE_CURSOR"


async def test_a_cursor_belongs_to_its_search(harness: ToolHarness):
    await many(harness, 5, 5)
    cursor = (await harness.ok("search_files", pattern="needle", limit=7)).next_page_cursor
    for other in (
        {"pattern": "hay"},
        {"pattern": "needle", "glob": "*"},
        {"pattern": "needle", "path": "d1"},
    ):
        assert await harness.refused("search_files", cursor=cursor, **other) == "INVALID_ARGS"
    assert await harness.refused("search_files", pattern="needle", cursor="x") == "INVALID_ARGS"


# -- the read limit --


async def test_a_page_shows_no_more_of_files_than_may_be_read(harness: ToolHarness):
    """S4 AC4: with a read limit of 10 bytes it once showed whole lines."""
    harness.narrow(read=10)
    harness.write("a.txt", "a long line with a needle in it\nneedle\nää needle ää\n")
    pages = await harness.pages("search_files", pattern="needle")
    texts = [[line.split(":", 2)[2] for line in page.stdout.splitlines()] for page in pages]
    assert [len(page) for page in texts] == [1, 1, 1]
    assert all(len("".join(page).replace("…", "").encode()) <= 10 for page in texts)
    assert texts[1] == ["needle"]
    assert texts[0][0].startswith("…")
    assert "needle" in texts[0][0]
    assert [page.truncated_bytes for page in pages] == [True, True, False]


async def test_several_lines_share_the_read_limit(harness: ToolHarness):
    harness.narrow(read=30)
    harness.write("a.txt", "needle 1 of\n" * 7)
    pages = await harness.pages("search_files", pattern="needle")
    assert [page.meta["matches"] for page in pages] == [2, 2, 2, 1]
    shown = "".join(page.stdout for page in pages)
    assert shown == "".join(f"a.txt:{number}:needle 1 of\n" for number in range(1, 8))


@pytest.mark.parametrize("limit", range(1, 40))
async def test_a_secret_is_never_cut_by_the_read_limit(harness: ToolHarness, limit: int):
    harness.narrow(read=limit)
    harness.write("a.txt", f"key {SECRET} needle {SECRET}\n")
    (page,) = await harness.pages("search_files", pattern="needle")
    text = page.stdout.removeprefix("a.txt:1:").rstrip("\n").replace("***REDACTED***", "")
    assert "*" not in text
    assert "sk-" not in text
    assert len(text.replace("…", "")) <= limit
