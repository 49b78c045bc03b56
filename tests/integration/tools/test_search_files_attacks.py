"""`search_files` against patterns, names, settings and links that mean to lead it astray."""

import os
import threading

import pytest

from tests.harness.tool_calls import ToolHarness
from tests.integration.tools.searching import found


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "--pre=sh",
            "--pre",
            "-f/etc/passwd",
            "--file=/etc/passwd",
            "--files",
            "--hostname-bin=sh",
            "-e",
            "--",
        ),
        *(
            "--search-zip",
            "-uuu",
            "--follow",
            "-L",
            "--no-ignore",
            "--help",
            "--version",
            "-V",
            "--type-list",
        ),
        *(
            "--generate=man",
            "--debug",
            "--json",
            "--passthru",
            "-r$0",
            "--pcre2-version",
            "!x",
            "@/etc/passwd",
        ),
    ],
)
async def test_a_pattern_is_never_an_option(harness: ToolHarness, pattern):
    """Earlier systems executed files when they were asked to search for `--pre=sh`."""
    harness.write("run.sh", "#!/bin/sh\ntouch PWNED\n")
    harness.write("text.txt", f"before\n{pattern}\n")
    for arguments in ({}, {"path": "text.txt"}, {"glob": "*.txt"}):
        lines = await found(harness, pattern, **arguments)
        assert lines == [f"text.txt:2:{pattern}"] or pattern.startswith("-r$")
    for glob in (pattern, f"*{pattern}"):
        result = await harness.call("search_files", pattern="before", glob=glob)
        assert result.stdout == "" or result.failure is not None
    assert not list(harness.root.parent.rglob("PWNED"))


@pytest.mark.parametrize("name", ["--pre=sh", "-f", "--files", "@list", "--", "-"])
async def test_a_name_is_never_an_option(harness: ToolHarness, name):
    harness.write(name, "touch PWNED needle\n")
    harness.write("other", "needle\n")
    assert await found(harness, "needle", path=name) == [f"{name}:1:touch PWNED needle"]
    assert not list(harness.root.parent.rglob("PWNED"))


async def test_configuration_of_rg_is_not_read(harness: ToolHarness, monkeypatch):
    hook = harness.outside / "hook.sh"
    hook.write_text(f"#!/bin/sh\ntouch {harness.outside}/PWNED\ncat $1\n")
    hook.chmod(0o755)
    config = harness.outside / "ripgreprc"
    config.write_text(f"--pre={hook}\n--follow\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(config))
    monkeypatch.setenv("HOME", str(harness.outside))
    harness.write("a.txt", "needle\n")
    assert await found(harness, "needle") == ["a.txt:1:needle"]
    assert not (harness.outside / "PWNED").exists()


async def test_links_are_not_followed(harness: ToolHarness):
    (harness.outside / "private.txt").write_text("needle CANARY\n")
    (harness.root / "folder").symlink_to(harness.outside)
    (harness.root / "file").symlink_to(harness.outside / "private.txt")
    harness.write("a.txt", "needle\n")
    (harness.root / "inner").symlink_to("a.txt")
    assert await found(harness, "needle") == ["a.txt:1:needle"]
    assert await found(harness, "needle", path="inner") == ["a.txt:1:needle"]
    for path in ("folder", "file", "folder/private.txt", "../outside"):
        assert await harness.refused("search_files", pattern="needle", path=path) == "PATH_DENIED"
    for glob in ("folder/*", "../outside/*", "/etc/*"):
        assert await harness.refused("search_files", pattern="x", glob=glob) == "PATH_DENIED"


async def test_a_file_that_also_has_a_name_outside_is_not_shown(harness: ToolHarness):
    (harness.outside / "private.txt").write_text("needle CANARY\n")
    os.link(harness.outside / "private.txt", harness.root / "linked.txt")
    harness.write("a.txt", "needle\n")
    assert await found(harness, "needle") == ["a.txt:1:needle"]


async def test_a_folder_swapped_for_a_link_during_the_search_shows_nothing_from_outside(
    harness: ToolHarness,
):
    for number in range(300):
        (harness.outside / f"f{number}.txt").write_text("needle CANARY\n" * 20)
        harness.write(f"d/f{number}.txt", "needle inside\n" * 20)
    inside, aside = harness.root / "d", harness.root / "aside"
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            inside.rename(aside)
            inside.symlink_to(harness.outside)
            inside.unlink()
            aside.rename(inside)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(12):
            for arguments in ({}, {"path": "d"}, {"path": "d/f1.txt"}):
                result = await harness.call("search_files", pattern="needle", **arguments)
                assert "CANARY" not in str(result)
    finally:
        done.set()
        thread.join()
