"""Which backend a setting gets, and what is remembered of a probe."""

import json
import os
from types import SimpleNamespace

import pytest

from interlock.sandbox import backend_selection
from interlock.sandbox.backend_selection import CACHE_NAME, ProbeCache, choose_backend
from interlock.sandbox.probe import ProbeCheck, ProbeReport


class Named:
    def __init__(self, name: str) -> None:
        self.name = name
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def probed(monkeypatch):
    """Which backends were probed; those in `bad` do not hold."""
    seen, bad = [], set()

    async def pretend(backend, *, state_folder=None, opened=()):
        seen.append(backend.name)
        row = ProbeCheck("read a file outside", holds=backend.name not in bad, detail="NOT blocked")
        return ProbeReport(backend.name, (row,), 0.01)

    monkeypatch.setattr(backend_selection, "probe", pretend)
    return SimpleNamespace(seen=seen, bad=bad)


@pytest.fixture
def made():
    backends = {}

    def maker(name):
        def make():
            return backends.setdefault(name, Named(name))

        return make

    by = {name: maker(name) for name in ("landlock", "bubblewrap")}
    return SimpleNamespace(by=by, backends=backends)


async def test_auto_takes_the_first_that_holds(probed, made):
    found = await choose_backend("auto", made_by=made.by, opened=())
    assert (found.backend.name, probed.seen) == ("landlock", ["landlock"])
    assert found.is_confined


async def test_auto_goes_on_where_the_first_does_not_hold_and_closes_it(probed, made):
    probed.bad.add("landlock")
    found = await choose_backend("auto", made_by=made.by, opened=())
    assert found.backend.name == "bubblewrap"
    assert made.backends["landlock"].is_closed
    assert [report.ok for report in found.reports] == [False, True]


async def test_where_nothing_holds_there_is_no_backend_and_a_reason(probed, made):
    probed.bad.update(("landlock", "bubblewrap"))
    found = await choose_backend("auto", made_by=made.by, opened=())
    assert found.backend is None
    assert not found.is_confined
    assert "landlock fails" in found.reason
    assert "bubblewrap fails" in found.reason


@pytest.mark.parametrize("setting", ["landlock", "bubblewrap"])
async def test_a_named_one_is_taken_or_none(probed, made, setting):
    assert (await choose_backend(setting, made_by=made.by, opened=())).backend.name == setting
    probed.bad.add(setting)
    assert (await choose_backend(setting, made_by=made.by, opened=())).backend is None
    assert set(probed.seen) == {setting}


async def test_one_that_is_not_installed_is_told(probed, made):
    made.by["bubblewrap"] = lambda: None
    found = await choose_backend("bubblewrap", made_by=made.by, opened=())
    assert (found.backend, found.reason) == (None, "bubblewrap is not installed")


@pytest.mark.parametrize("setting", ["", "none", "OFF", "false"])
async def test_a_setting_that_is_not_known_confines_nothing_and_runs_nothing(probed, made, setting):
    assert (await choose_backend(setting, made_by=made.by, opened=())).backend is None


async def test_off_is_the_one_that_confines_nothing_and_says_so(probed):
    found = await choose_backend("off", opened=())
    assert (found.backend.name, found.is_confined, probed.seen) == ("off", False, [])
    assert "TOOL_SANDBOX=off" in found.reason


# -- remembered verdicts --


async def choose(made, state, **options):
    return await choose_backend("auto", state_folder=state, made_by=made.by, opened=(), **options)


async def test_a_good_verdict_is_remembered_and_a_bad_one_is_not(probed, made, tmp_path):
    await choose(made, tmp_path)
    assert (await choose(made, tmp_path)).reports == ()
    assert probed.seen == ["landlock"]
    probed.bad.add("landlock")
    assert (await choose(made, tmp_path, is_anew=True)).backend.name == "bubblewrap"
    assert probed.seen == ["landlock", "landlock", "bubblewrap"]
    # The bad verdict took the good one away.
    await choose(made, tmp_path)
    assert probed.seen[3:] == ["landlock"]


@pytest.mark.parametrize("changed", ["boot", "kernel", "account", "version", "setting", "container"])
async def test_a_verdict_holds_only_for_what_it_was_made_on(probed, made, tmp_path, monkeypatch, changed):
    await choose(made, tmp_path)
    real = backend_selection._content
    if changed == "account":
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    elif changed == "version":
        monkeypatch.setattr(backend_selection, "__version__", "9.9.9")
    elif changed == "container":
        monkeypatch.setattr(backend_selection, "_link", lambda path: f"other:{path}")
    elif changed in ("boot", "kernel"):
        wanted = "boot_id" if changed == "boot" else "osrelease"
        monkeypatch.setattr(
            backend_selection, "_content", lambda path: "x" if path.endswith(wanted) else real(path)
        )
    setting = "landlock" if changed == "setting" else "auto"
    await choose_backend(setting, state_folder=tmp_path, made_by=made.by, opened=())
    assert probed.seen == ["landlock", "landlock"]


@pytest.mark.parametrize(
    "content", ["", "garbage", "[]", "{}", '{"passed": 1}', '{"passed": ["x"]}', "\x00\xff", "[" * 60_000]
)
async def test_garbage_is_no_verdict_and_is_replaced(probed, made, tmp_path, content):
    (tmp_path / CACHE_NAME).touch(mode=0o600)
    (tmp_path / CACHE_NAME).write_text(content)
    await choose(made, tmp_path)
    await choose(made, tmp_path)
    assert probed.seen == ["landlock"]


@pytest.mark.parametrize("mode", [0o622, 0o660, 0o644])
async def test_a_file_that_somebody_else_might_write_is_no_verdict(probed, made, tmp_path, mode):
    await choose(made, tmp_path)
    (tmp_path / CACHE_NAME).chmod(mode)
    await choose(made, tmp_path)
    assert probed.seen == ["landlock", "landlock"]
    assert (tmp_path / CACHE_NAME).stat().st_mode & 0o777 == 0o600


async def test_a_link_is_no_verdict_and_is_not_written_through(probed, made, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    await choose(made, tmp_path)
    (tmp_path / CACHE_NAME).rename(elsewhere)
    before = elsewhere.read_bytes()
    (tmp_path / CACHE_NAME).symlink_to(elsewhere)
    await choose(made, tmp_path)
    assert probed.seen == ["landlock", "landlock"]
    assert elsewhere.read_bytes() == before
    assert not (tmp_path / CACHE_NAME).is_symlink()


async def test_a_pipe_in_its_place_holds_nobody_up(probed, made, tmp_path):
    os.mkfifo(tmp_path / CACHE_NAME, 0o600)
    await choose(made, tmp_path)
    assert probed.seen == ["landlock"]


async def test_a_state_folder_that_cannot_be_written_is_no_obstacle(probed, made, tmp_path):
    found = await choose(made, tmp_path / "missing")
    assert found.backend.name == "landlock"


def test_few_verdicts_are_kept(tmp_path):
    for number in range(40):
        ProbeCache(tmp_path, "landlock", str(number)).remember()
    assert len(json.loads((tmp_path / CACHE_NAME).read_text())["passed"]) == 16
    assert ProbeCache(tmp_path, "landlock", "39").is_remembered()
    assert not ProbeCache(tmp_path, "landlock", "0").is_remembered()
    assert [path.name for path in tmp_path.iterdir()] == [CACHE_NAME]
