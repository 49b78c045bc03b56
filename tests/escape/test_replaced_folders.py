"""What was opened by its path is that folder, not a link that an agent has put in its place since."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.cli.runtime import resolve_root_arguments
from interlock.config.settings import load_settings
from interlock.core.errors import BadUsage, ConfigurationError
from interlock.embed.gates import open_gates
from interlock.sandbox.backend_selection import choose_backend
from interlock.sandbox.jobs import ExitReason, Job, SandboxBackend
from interlock.sandbox.profile import SandboxProfile
from tests.harness.sandbox import SECRET, FinishedJob, finished


@pytest.fixture(params=["landlock", "bubblewrap"])
async def backend(request, tmp_path):
    choice = await choose_backend(request.param, state_folder=tmp_path, opened=())
    if choice.backend is None:
        pytest.skip(f"{request.param} does not work here: {choice.reason}")
    yield choice.backend
    await choice.backend.close()


@pytest.fixture
def outside(tmp_path) -> Path:
    folder = tmp_path / "outside"
    (folder / "deep").mkdir(parents=True)
    for place in (folder, folder / "deep"):
        (place / "file").write_text(SECRET)
    return folder


async def shell(backend: SandboxBackend, profile: SandboxProfile, script: str, **options) -> FinishedJob:
    folder = os.open(profile.readable_roots[0], os.O_RDONLY | os.O_DIRECTORY)
    try:
        job = Job(("/bin/sh", "-c", script), folder, {"PATH": "/usr/bin:/bin"}, profile, **options)
        async with backend.running(job) as child:
            return await finished(child)
    finally:
        os.close(folder)


@pytest.mark.parametrize("opened_as", ["readable root", "writable root", "readable path", "private folder"])
@pytest.mark.parametrize("inner", ["data", "data/deep"])
async def test_a_folder_inside_an_opened_one_that_became_a_link_opens_nothing(
    backend, tmp_path, outside, opened_as, inner
):
    """Who may write the outer folder may move the inner one away, and say by a link what is opened next."""
    root = tmp_path / "root"
    (root / inner).mkdir(parents=True)
    profile = SandboxProfile((root,), (root,))
    moved = await shell(backend, profile, f"mv data away && ln -s {outside} data")
    assert moved.ended.exit_code == 0, moved.both

    options = {}
    if opened_as == "readable root":
        profile = replace(profile, readable_roots=(root, root / inner))
    elif opened_as == "writable root":
        profile = replace(profile, readable_roots=(root, root / inner), writable_roots=(root, root / inner))
    elif opened_as == "readable path":
        options["readable_paths"] = (root / inner,)
    else:
        options["private_folders"] = (root / inner,)
    secret = outside / Path(inner).relative_to("data") / "file"
    done = await shell(backend, profile, f"cat {secret}; echo changed > {secret}", **options)
    assert SECRET not in done.both
    assert secret.read_text() == SECRET
    if backend.name == "bubblewrap" or "root" not in opened_as:
        assert done.ended.reason is ExitReason.not_started
        assert f"{root / inner}" in done.ended.step
    else:
        # The outer one is opened, and nobody is kept from working in it.
        assert done.ended.reason is ExitReason.exited


# -- at the next start, when a setting's path is looked at again --


@pytest.fixture
def linked(tmp_path, outside, monkeypatch) -> Path:
    """A folder inside the opened one, which an agent has replaced by a link."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "data").symlink_to(outside)
    (root / "far").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").symlink_to(root / "data")
    monkeypatch.setenv("INTERLOCK_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("WORKSPACE_DIR", str(tmp_path / "workspace"))
    return root


@pytest.mark.parametrize(
    "name", ["root/data", "root/data/deep", "root/../root/data", "root/far", "elsewhere"]
)
@pytest.mark.parametrize("variable", ["TOOL_ALLOWED_ROOTS", "TOOL_READABLE_PATHS"])
def test_no_link_in_an_opened_folder_says_what_else_is_opened(
    linked, tmp_path, monkeypatch, variable, name
):
    """Workers are started again while an agent works."""
    monkeypatch.setenv("TOOL_ALLOWED_ROOTS", str(linked))
    both = f"{linked},{tmp_path / name}" if variable == "TOOL_ALLOWED_ROOTS" else str(tmp_path / name)
    monkeypatch.setenv(variable, both)
    with pytest.raises(ConfigurationError, match=f"{variable}.*contains the symlink"):
        load_settings()


@pytest.mark.parametrize("name", ["data", "data/deep"])
def test_no_link_in_an_opened_folder_says_what_the_command_line_opens(linked, name):
    with pytest.raises(BadUsage, match="contains the symlink"):
        resolve_root_arguments([linked, linked / name])


def test_where_a_link_leads_is_told(linked, outside, capsys):
    """It may have been put there by an agent of another process, to which the folder above is opened."""
    assert resolve_root_arguments([linked / "data"]) == (outside,)
    assert capsys.readouterr().err == f"--root {linked / 'data'} resolves to {outside}\n"
    resolve_root_arguments([outside])
    assert capsys.readouterr().err == ""


async def test_no_link_in_an_opened_folder_says_what_a_program_opens_that_embeds_the_gates(linked):
    with pytest.raises(ConfigurationError, match="contains the symlink"):
        async with open_gates(roots=[linked, linked / "data"]):
            pass


@pytest.mark.parametrize("variable", ["INTERLOCK_STATE_DIR", "WORKSPACE_DIR"])
def test_interlocks_own_folders_are_not_reached_through_a_link_in_an_opened_one(
    linked, monkeypatch, variable
):
    monkeypatch.setenv("TOOL_ALLOWED_ROOTS", str(linked))
    monkeypatch.setenv(variable, str(linked / "data"))
    with pytest.raises(ConfigurationError, match="overlap"):
        load_settings()


def test_a_root_may_be_named_by_a_link_that_no_agent_can_write(linked, tmp_path, monkeypatch):
    (tmp_path / "current").symlink_to(linked)
    monkeypatch.setenv("TOOL_ALLOWED_ROOTS", str(tmp_path / "current"))
    assert load_settings().tool.allowed_roots == (linked,)


@pytest.mark.parametrize("name", ["token", "link"])
@pytest.mark.parametrize("variable", ["OPENAI_API_KEY_FILE", "REDACTION_RULES"])
def test_what_is_read_at_the_start_is_written_by_no_agent(linked, tmp_path, monkeypatch, variable, name):
    """A link could lead to another secret, which is then sent to a server; and rules say what is masked."""
    (tmp_path / "rules").write_text("")
    (linked / "link").symlink_to(tmp_path / "rules")
    (linked / "token").write_text("")
    monkeypatch.setenv("TOOL_ALLOWED_ROOTS", str(linked))
    monkeypatch.setenv(variable, str(linked / name))
    with pytest.raises(ConfigurationError, match=f"file of {variable}"):
        load_settings()
    monkeypatch.setenv(variable, str(tmp_path / "rules"))
    load_settings()
