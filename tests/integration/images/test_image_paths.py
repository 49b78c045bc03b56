"""Where an image may be written: judged before anything is paid, and judged again when it is written."""

import os

import pytest
from aiohttp import web

from interlock.config.protected_names import PROTECTED_NAMES
from tests.harness.image_server import image_reply
from tests.harness.sample_images import png


@pytest.fixture
def outside(images):
    before = images.bench.outside_state()
    yield images.bench.outside
    assert images.bench.outside_state() == before


@pytest.mark.parametrize(
    "path",
    [
        "/etc/picture.png",
        "../outside/picture.png",
        "a/../../outside/picture.png",
        "{outside}/picture.png",
        "out/picture.png",
        "dangling.png",
        "pointer.png",
        ".vscode/picture.png",
        ".git/hooks/picture.png",
        ".GIT/Hooks/picture.png",
        "sub/.git/hooks/deep/picture.png",
    ],
)
async def test_a_path_that_may_not_be_written_costs_nothing(images, outside, path):
    (outside / "there.png").write_bytes(b"theirs")
    root = images.bench.root
    (root / "out").symlink_to(outside)
    (root / "dangling.png").symlink_to(outside / "new.png")
    (root / "pointer.png").symlink_to(outside / "there.png")
    before = images.bench.outside_state()
    code, _, _ = await images.failure(path.format(outside=outside))
    assert code == "PATH_DENIED"
    assert images.endpoint.bodies == []
    assert images.bench.outside_state() == before
    (outside / "there.png").unlink()


@pytest.mark.parametrize("name", [name for name in PROTECTED_NAMES if "**" not in name])
async def test_a_protected_name_is_no_folder_for_images(images, name):
    assert (await images.failure(f"{name}/picture.png"))[0] == "PATH_DENIED"
    assert images.endpoint.bodies == []


async def test_a_link_that_stays_inside_works(images):
    (images.bench.root / "real").mkdir()
    (images.bench.root / "link").symlink_to("real")
    await images.make("link/picture.png")
    assert (images.bench.root / "real/picture.png").read_bytes() == png()


async def test_a_folder_of_that_name_is_in_the_way(images):
    (images.bench.root / "picture.png").mkdir()
    code, message, step = await images.failure()
    assert code == "EXECUTION_ERROR"
    assert "picture.png already exists" in message
    assert "picture-2.png" in step
    assert images.endpoint.bodies == []


async def test_a_file_where_a_folder_should_be_costs_nothing(images):
    images.bench.write("notes", "text")
    code, message, _ = await images.failure("notes/picture.png")
    assert code == "EXECUTION_ERROR"
    assert "not a folder" in message
    assert images.endpoint.bodies == []


@pytest.mark.parametrize("path", ["closed/picture.png", "closed/new/deep/picture.png"])
async def test_a_folder_that_cannot_be_written_to_costs_nothing(images, monkeypatch, path):
    closed = images.bench.root / "closed"
    closed.mkdir()
    # Root may write anywhere, so the kernel's answer for another account is given here.
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed and real(path, mode))
    code, message, _ = await images.failure(path)
    assert code == "EXECUTION_ERROR"
    assert "has no write permission there" in message
    assert images.endpoint.bodies == []


@pytest.mark.parametrize("asked", ["art/picture.png", "art/picture.jpg"])
async def test_a_folder_that_becomes_a_link_to_outside_meanwhile_loses_the_image_and_says_so(
    images, outside, asked
):
    folder = images.bench.root / "art"
    folder.mkdir()

    async def answer(request):
        folder.rmdir()
        folder.symlink_to(outside)
        return web.json_response(image_reply())

    images.endpoint.answer = answer
    code, message, step = await images.failure(asked)
    assert code == "PATH_DENIED"
    assert message.startswith("the image was generated but could not be written, so it is lost: ")
    assert "charged" in step
    kinds = [kind for kind, _ in images.bench.events()]
    assert kinds[-2:] == ["tool_call.started", "tool_call.denied"]


async def test_a_file_where_the_folder_was_loses_the_image_and_says_so(images):
    folder = images.bench.root / "art"
    folder.mkdir()

    async def answer(request):
        folder.rmdir()
        folder.write_text("now a file")
        return web.json_response(image_reply())

    images.endpoint.answer = answer
    result = await images.bench.call("generate_image", prompt="x", path="art/picture.png")
    assert result.failure.error_code == "EXECUTION_ERROR"
    assert "so it is lost: art/picture.png: a part of the path is not a folder" in result.failure.message
    assert folder.read_text() == "now a file"


async def test_every_spare_name_taken_ends_in_words(images):
    async def answer(request):
        images.bench.write("picture.png", "taken")
        for number in range(2, 40):
            images.bench.write(f"picture-{number}.png", "taken")
        return web.json_response(image_reply())

    images.endpoint.answer = answer
    result = await images.bench.call("generate_image", prompt="x", path="picture.png")
    assert "lost: picture.png already exists" in result.failure.message
    assert set(images.files().values()) == {b"taken"}
