"""Where a path leads, and whether it may be touched (S3-6.1.3, S3-12.2)."""

import errno
import json
import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.core.errors import ErrorCode, ToolError
from interlock.sandbox.paths import PathAccess, PathResolver, quote_path
from interlock.sandbox.profile import SandboxProfile
from tests.unit.sandbox.asked import content_of, refusal

pytestmark = pytest.mark.usefixtures("both_ways")


# -- what is inside --


@pytest.mark.parametrize(
    ("asked", "relative"),
    [
        ("README.md", "README.md"),
        (".", "."),
        ("./", "."),
        ("src", "src"),
        ("src/", "src"),
        ("src//a.py", "src/a.py"),
        ("./src/./a.py", "src/a.py"),
        ("src/../README.md", "README.md"),
        ("src/deep/../a.py", "src/a.py"),
        ("../ws/README.md", "README.md"),
        ("../../../../../../../..{top}/ws/README.md", "README.md"),
        ("{top}/ws/src/../README.md", "README.md"),
        ("//{top}/ws/README.md", "README.md"),
        ("not/there/yet", "not/there/yet"),
        ("not/there/../yet", "not/yet"),
    ],
)
def test_a_path_that_ends_inside_is_found_in_its_canonical_form(roots, asked, relative):
    """S3-6.1.3"""
    place = roots.resolver.find(asked.format(top=roots.top))
    assert (place.root, place.relative) == (roots.inside, relative)


def test_a_relative_path_starts_at_the_first_root_wherever_the_process_stands(roots, monkeypatch):
    monkeypatch.chdir(roots.outside)
    assert roots.resolver.find("src/a.py").path == roots.inside / "src/a.py"
    assert content_of(roots.resolver, "src/a.py") == "ok"


def test_the_second_root_is_reached_by_its_full_path(roots):
    assert content_of(roots.resolver, f"{roots.top}/lib/b.py") == "ok"
    assert content_of(roots.resolver, "../lib/b.py") == "ok"


@pytest.mark.parametrize(
    "name",
    [
        "...",
        "..data",
        "a..b",
        "%2e%2e",
        "~",
        "$HOME",
        "${HOME}",
        "-rf",
        "--",
        "a b",
        " ",
        "a\nb",
        "a\tb",
        "*",
        "日本.txt",
        "\u202egnp.exe",
        "\ufeffbom",
        "..\\outside\\secret.txt",
        "x" * 255,
        "\udcff\udc80",
        "'\"`",
    ],
)
def test_a_strange_name_is_only_a_name(roots, name, monkeypatch):
    """Nothing is expanded, decoded, trimmed or folded."""
    monkeypatch.setenv("HOME", str(roots.outside))
    (roots.inside / name).mkdir()
    (roots.inside / name / "f.txt").write_text("mine")
    assert content_of(roots.resolver, f"{name}/f.txt") == "mine"
    assert roots.resolver.find(name).parts == (name,)


@pytest.mark.parametrize(
    "asked", ["~", "~root", "~/x", "$HOME/x", "%2e%2e/outside/secret.txt", "a\\..\\..\\b"]
)
def test_what_is_not_there_is_not_found_by_another_name(roots, asked, monkeypatch):
    monkeypatch.setenv("HOME", str(roots.inside / "src"))
    with pytest.raises(FileNotFoundError):
        roots.resolver.open(roots.resolver.find(asked), os.O_RDONLY)


def test_two_spellings_of_a_letter_are_two_names(roots):
    composed, decomposed = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    roots.write(f"ws/{composed}", "one")
    with pytest.raises(FileNotFoundError):
        content_of(roots.resolver, decomposed)
    roots.write(f"ws/{decomposed}", "two")
    assert [content_of(roots.resolver, name) for name in (composed, decomposed)] == ["one", "two"]


# -- what is outside --


@pytest.mark.parametrize(
    "asked",
    [
        "..",
        "../",
        "../outside/secret.txt",
        "../ws-secrets/k.txt",
        "{top}/ws-secrets/k.txt",
        "{top}/ws/../outside/secret.txt",
        "src/../../outside/secret.txt",
        "not-there/../../outside/secret.txt",
        "README.md/../../outside/secret.txt",
        ".//..//outside//secret.txt",
        "../../../../../../../../../../../../../../etc/passwd",
        "/",
        "///etc/passwd",
        "/etc/passwd",
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
        "/proc/thread-self/root/etc/passwd",
        "/dev/stdin",
        "{top}",
        "{top}/outside/not-there",
        "../outside/secret.txt ",
        "../outside/secret.txt\n",
    ],
)
@pytest.mark.parametrize("access", list(PathAccess))
@pytest.mark.parametrize("follow", [True, False])
def test_a_path_that_ends_outside_is_refused(roots, asked, access, follow):
    """S3-6.1.3"""
    error = refusal(roots.resolver, asked.format(top=roots.top), access, follow=follow)
    assert error.error_code is ErrorCode.PATH_DENIED
    assert str(roots.inside) in error.next_action


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("", "empty"),
        ("\0", "null"),
        ("src/\0../../outside/secret.txt", "null"),
        ("x" * 4097, "longer than 4096"),
        ("é" * 2049, "longer than 4096"),
        ("a\ud800b", "half a character"),
    ],
)
def test_a_malformed_path_is_refused_as_an_argument(roots, asked, said):
    error = refusal(roots.resolver, asked)
    assert error.error_code is ErrorCode.INVALID_ARGS
    assert said in error.message


def test_a_name_that_is_too_long_is_the_systems_error(roots):
    with pytest.raises(OSError, match="too long") as caught:
        content_of(roots.resolver, "x" * 256)
    assert caught.value.errno == errno.ENAMETOOLONG


def test_without_an_opened_folder_everything_is_refused():
    assert refusal(PathResolver(SandboxProfile()), "/etc/passwd").error_code is ErrorCode.PATH_DENIED


# -- how a path is shown --


def test_a_path_is_shown_as_it_can_be_asked_for_again(roots):
    resolver = roots.resolver
    assert resolver.shown(resolver.find("src")) == "src"
    assert resolver.shown(resolver.find(".")) == "."
    assert resolver.shown(resolver.find("src"), ("a.py",)) == "src/a.py"
    assert resolver.shown(resolver.find("../lib/b.py")) == f"{roots.top}/lib/b.py"


@given(
    name=st.text(
        st.one_of(st.characters(codec="utf-8"), st.integers(0xDC80, 0xDCFF).map(chr)),
        min_size=1,
        max_size=40,
    ).filter(lambda text: not set(text) & {"/", "\0"} and text not in {".", ".."})
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_name_is_shown_on_one_line_and_found_again(roots, name):
    place = roots.resolver.find(f"src/{name}")
    shown = roots.resolver.shown(place)
    assert shown.isprintable()
    again = roots.resolver.find(json.loads(shown) if shown.startswith('"') else shown)
    assert again.path == place.path


def test_a_name_that_is_not_printable_is_quoted_as_json():
    assert quote_path("a\nb\udcff") == '"a\\nb\\udcff"'


# -- against the system's own answer --


PARTS = st.sampled_from(["a", "b", "d", "d/a", "l1", "l2", "l3", "..", ".", "", "missing", "out"])


@given(
    targets=st.lists(st.lists(PARTS, min_size=1, max_size=4).map("/".join), min_size=3, max_size=3),
    asked=st.lists(PARTS, min_size=1, max_size=5).map("/".join).filter(bool),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_opened_is_what_the_kernel_opens_or_nothing(roots, targets, asked):
    """For any few links and any path of them: the same file as the kernel's, and never one outside."""
    with_links = roots.inside / "any"
    with_links.mkdir(exist_ok=True)
    for name in ("a", "b"):
        (with_links / name).write_text(name)
    (with_links / "d").mkdir(exist_ok=True)
    (with_links / "d" / "a").write_text("da")
    links = {"l1": targets[0], "l2": targets[1], "d/l3": targets[2], "out": str(roots.outside)}
    for name, target in links.items():
        (with_links / name).unlink(missing_ok=True)
        (with_links / name).symlink_to(target or ".")
    try:
        descriptor = roots.resolver.open(roots.resolver.find(f"any/{asked}"), os.O_PATH)
    except (ToolError, OSError):
        return
    try:
        opened = os.fstat(descriptor)
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
    finally:
        os.close(descriptor)
    assert path == str(roots.inside) or path.startswith(f"{roots.inside}/")
    try:
        kernels = os.stat(f"{roots.inside}/any/{asked}")  # noqa: PTH116 - a Path would tidy it up
    except OSError:
        # `..`, `.` or a slash behind a file, or behind nothing, is passed over here; the kernel minds.
        return
    assert (opened.st_dev, opened.st_ino) == (kernels.st_dev, kernels.st_ino)
