"""`search_files` against patterns, names, settings and links that mean to lead it astray."""

import os
import threading

import pytest

from tests.integration.tools.searching import found
from tests.integration.workbench import Workbench


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
async def test_a_pattern_is_never_an_option(workbench: Workbench, pattern):
    """Earlier systems executed files when they were asked to search for `--pre=sh`."""
    workbench.write("run.sh", "#!/bin/sh\ntouch PWNED\n")
    workbench.write("text.txt", f"before\n{pattern}\n")
    for arguments in ({}, {"path": "text.txt"}, {"glob": "*.txt"}):
        lines = await found(workbench, pattern, **arguments)
        assert lines == [f"text.txt:2:{pattern}"] or pattern.startswith("-r$")
    for glob in (pattern, f"*{pattern}"):
        result = await workbench.call("search_files", pattern="before", glob=glob)
        assert result.stdout == "" or result.failure is not None
    assert not list(workbench.root.parent.rglob("PWNED"))


@pytest.mark.parametrize("name", ["--pre=sh", "-f", "--files", "@list", "--", "-"])
async def test_a_name_is_never_an_option(workbench: Workbench, name):
    workbench.write(name, "touch PWNED needle\n")
    workbench.write("other", "needle\n")
    assert await found(workbench, "needle", path=name) == [f"{name}:1:touch PWNED needle"]
    assert not list(workbench.root.parent.rglob("PWNED"))


async def test_configuration_of_rg_is_not_read(workbench: Workbench, monkeypatch):
    hook = workbench.outside / "hook.sh"
    hook.write_text(f"#!/bin/sh\ntouch {workbench.outside}/PWNED\ncat $1\n")
    hook.chmod(0o755)
    config = workbench.outside / "ripgreprc"
    config.write_text(f"--pre={hook}\n--follow\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(config))
    monkeypatch.setenv("HOME", str(workbench.outside))
    workbench.write("a.txt", "needle\n")
    assert await found(workbench, "needle") == ["a.txt:1:needle"]
    assert not (workbench.outside / "PWNED").exists()


async def test_links_are_not_followed(workbench: Workbench):
    (workbench.outside / "private.txt").write_text("needle CANARY\n")
    (workbench.root / "folder").symlink_to(workbench.outside)
    (workbench.root / "file").symlink_to(workbench.outside / "private.txt")
    workbench.write("a.txt", "needle\n")
    (workbench.root / "inner").symlink_to("a.txt")
    assert await found(workbench, "needle") == ["a.txt:1:needle"]
    assert await found(workbench, "needle", path="inner") == ["a.txt:1:needle"]
    for path in ("folder", "file", "folder/private.txt", "../outside"):
        assert await workbench.refused("search_files", pattern="needle", path=path) == "PATH_DENIED"
    for glob in ("folder/*", "../outside/*", "/etc/*"):
        assert await workbench.refused("search_files", pattern="x", glob=glob) == "PATH_DENIED"


async def test_a_file_that_also_has_a_name_outside_is_not_shown(workbench: Workbench):
    (workbench.outside / "private.txt").write_text("needle CANARY\n")
    os.link(workbench.outside / "private.txt", workbench.root / "linked.txt")
    workbench.write("a.txt", "needle\n")
    assert await found(workbench, "needle") == ["a.txt:1:needle"]


async def test_a_folder_swapped_for_a_link_during_the_search_shows_nothing_from_outside(
    workbench: Workbench,
):
    for number in range(300):
        (workbench.outside / f"f{number}.txt").write_text("needle CANARY\n" * 20)
        workbench.write(f"d/f{number}.txt", "needle inside\n" * 20)
    inside, aside = workbench.root / "d", workbench.root / "aside"
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            inside.rename(aside)
            inside.symlink_to(workbench.outside)
            inside.unlink()
            aside.rename(inside)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(12):
            for arguments in ({}, {"path": "d"}, {"path": "d/f1.txt"}):
                result = await workbench.call("search_files", pattern="needle", **arguments)
                assert "CANARY" not in str(result)
    finally:
        done.set()
        thread.join()
