"""generate_image against an endpoint on a real socket: what is asked, what is saved, what is told."""

import asyncio
import base64
import hashlib

import pytest
from aiohttp import web

from interlock.config.modes import ToolMode
from interlock.policy.policy_fields import FsPolicy, ImagePolicy, ToolPolicy
from tests.harness.image_server import MODEL, image_reply
from tests.harness.sample_images import GIF, WEBP_LOSSY, jpeg, png
from tests.integration.images.conftest import PROMPT
from tests.integration.tools.undoing import left, undo, undone


async def test_an_image_is_asked_for_once_and_saved_as_it_came(images):
    image = png(640, 480)
    images.endpoint.reply(image_reply(image, revised_prompt="a tall lighthouse"))
    result = await images.make("art/new/picture.png", aspect_ratio="16:9")
    assert images.files() == {"art/new/picture.png": image}
    assert images.endpoint.bodies == [
        {"model": MODEL, "prompt": PROMPT, "n": 1, "size": "1792x1024", "response_format": "b64_json"}
    ]
    assert (
        result.stdout == f"created art/new/picture.png: PNG image, 640 x 480 pixels, {len(image)} bytes\n"
    )
    assert dict(result.meta) == {
        "path": "art/new/picture.png",
        "bytes_written": len(image),
        "kind": "PNG",
        "width": 640,
        "height": 480,
        "model": MODEL,
        "revised_prompt": "a tall lighthouse",
        "can_be_undone": True,
    }


async def test_the_log_has_the_intent_the_outcome_and_the_file(images):
    image = png()
    images.endpoint.reply(image_reply(image))
    await images.make("picture.png")
    (started, intent), (completed, outcome) = images.bench.events()[-2:]
    assert (started, completed) == ("tool_call.started", "tool_call.completed")
    assert intent["effect"] == "special"
    assert intent["arguments"] == {"prompt": PROMPT, "path": "picture.png"}
    assert intent["timeout_seconds"] == 20
    (touch,) = outcome["files"]
    assert touch["path"] == str(images.bench.root / "picture.png")
    assert (touch["action"], touch["sha256"]) == ("created", hashlib.sha256(image).hexdigest())
    assert (touch["seen_from"], touch["seen_to"]) == (0, 0)


async def test_models_that_choose_the_kind_are_told_it_and_not_the_form_of_the_answer(images):
    images.use(model="gpt-image-1")
    images.endpoint.reply(image_reply(jpeg()))
    await images.make("picture.jpeg", aspect_ratio="portrait")
    assert images.endpoint.bodies == [
        {"model": "gpt-image-1", "prompt": PROMPT, "n": 1, "size": "1024x1536", "output_format": "jpeg"}
    ]
    assert set(images.files()) == {"picture.jpeg"}


@pytest.mark.parametrize(
    ("asked", "image", "saved"),
    [
        ("picture", png(), "picture.png"),
        ("picture", jpeg(), "picture.jpg"),
        ("picture.jpg", png(), "picture.png"),
        ("picture.png", WEBP_LOSSY, "picture.webp"),
        ("picture.PNG", png(), "picture.PNG"),
        ("picture.jpeg", jpeg(), "picture.jpeg"),
        ("a.b/.picture", GIF, "a.b/.picture.gif"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_the_extension_is_that_of_the_image(images, asked, image, saved):
    """An image that was paid for is saved under the name that fits, rather than refused."""
    images.endpoint.reply(image_reply(image))
    result = await images.make(asked)
    assert images.files() == {saved: image}
    assert result.meta["path"] == saved
    told_why = "the endpoint returned a" in result.stdout
    assert told_why is (saved not in {asked, f"{asked}.png"})


async def test_a_data_address_is_an_image_too(images):
    address = "data:image/png;base64," + base64.b64encode(png()).decode()
    images.endpoint.reply({"data": [{"url": address}]})
    await images.make()
    assert images.files() == {"picture.png": png()}


async def test_undo_takes_it_away_again(images):
    await images.make("art/picture.png")
    await undone(images.bench)
    assert images.files() == {}
    assert not (images.bench.root / "art").exists()


async def test_undo_leaves_an_image_that_somebody_changed(images):
    await images.make()
    images.bench.write("picture.png", "mine now")
    assert set(left(await undo(images.bench))) == {"picture.png"}
    assert images.files() == {"picture.png": b"mine now"}


async def test_a_file_is_never_replaced_and_a_free_name_is_given_before_anything_is_paid(images):
    images.bench.write("picture.png", "mine")
    images.bench.write("picture-2.png", "mine as well")
    code, message, step = await images.failure("picture.png")
    assert code == "EXECUTION_ERROR"
    assert "picture.png already exists" in message
    assert "picture-3.png" in step
    assert images.endpoint.bodies == []


async def test_a_name_that_is_taken_while_the_image_is_made_costs_nobody_anything(images):
    async def answer(request):
        images.bench.write("picture.png", "somebody else's")
        return web.json_response(image_reply())

    images.endpoint.answer = answer
    result = await images.make()
    assert images.files() == {"picture.png": b"somebody else's", "picture-2.png": png()}
    assert "not picture.png: that file was created in the meantime" in result.stdout
    assert result.meta["path"] == "picture-2.png"


async def test_two_at_once_to_one_path_are_both_kept(images):
    both = asyncio.Event()

    async def answer(request):
        if len(images.endpoint.bodies) == 2:
            both.set()
        await both.wait()
        return web.json_response(image_reply())

    images.endpoint.answer = answer
    await asyncio.gather(images.make(), images.make())
    assert images.files() == {"picture.png": png(), "picture-2.png": png()}


async def test_without_a_key_none_is_sent(images):
    images.endpoint.key = None
    images.use(key=None)
    await images.make()
    assert len(images.endpoint.bodies) == 1


async def test_progress_is_told_from_the_request_to_the_file(images):
    async def answer(request):
        response = web.StreamResponse()
        await asyncio.wait_for(told("waiting for the image"), 5)
        await response.prepare(request)
        body = web.json_response(image_reply()).body
        await response.write(body[:10])
        await asyncio.wait_for(told("10 bytes received"), 5)
        await response.write(body[10:])
        return response

    async def told(text: str) -> None:
        while not any(text in line for line in images.bench.progress):
            await asyncio.sleep(0.005)

    images.endpoint.answer = answer
    await images.make()
    assert images.bench.progress[0] == f"requesting an image of 1024x1024 pixels from {MODEL}"
    assert f"received {len(png())} bytes, saving" in images.bench.progress
    assert images.bench.progress[-1].startswith("created picture.png: PNG image")


@pytest.mark.parametrize("mode", [ToolMode.chat_safe, ToolMode.chat, ToolMode.plan])
async def test_other_modes_than_coding_are_denied_it(images, mode):
    images.bench.mode = mode
    assert (await images.failure())[0] == "MODE_DENIED"
    assert "generate_image" not in images.bench.authority().exposed
    assert images.endpoint.bodies == []


@pytest.mark.parametrize(
    "policy",
    [
        ToolPolicy(image=ImagePolicy(enabled=False)),
        ToolPolicy(fs=FsPolicy(enabled=False)),
        ToolPolicy(denied_tools=frozenset({"generate_image"})),
    ],
)
async def test_a_policy_switches_it_off(images, policy):
    images.bench.policy = policy
    assert (await images.failure())[0] == "TOOL_NOT_AVAILABLE"
    assert "generate_image" not in images.bench.authority().exposed
    assert images.endpoint.bodies == []


async def test_without_an_endpoint_it_is_not_available_and_says_why(harness):
    result = await harness.call("generate_image", prompt=PROMPT, path="picture.png")
    assert result.failure.error_code == "TOOL_NOT_AVAILABLE"
    assert "no image endpoint is configured" in result.failure.message
    assert "generate_image" not in harness.authority().exposed


async def test_without_folders_it_is_not_available(images):
    images.bench.roots = ()
    code, message, _ = await images.failure()
    assert code == "TOOL_NOT_AVAILABLE"
    assert "TOOL_ALLOWED_ROOTS" in message


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt": " \n\t"}, "blank"),
        ({"prompt": "half \ud83d"}, "surrogates"),
        ({"prompt": "x" * 32_001}, "prompt"),
        ({"prompt": 7}, "prompt"),
        ({"path": ""}, "path"),
        ({"path": "folder/"}, "must name a file"),
        ({"path": ".."}, "must name a file"),
        ({"path": "picture.svg"}, ".svg is not the extension of an image"),
        ({"path": "picture.png.sh"}, ".sh is not"),
        ({"path": "a\0.png"}, "path"),
        ({"aspect_ratio": "7:1"}, "aspect_ratio"),
        ({"n": 4}, "n"),
    ],
)
async def test_arguments_are_judged_before_anything_is_paid(images, arguments, text):
    result = await images.bench.call("generate_image", {"prompt": PROMPT, "path": "p.png", **arguments})
    assert result.failure.error_code in {"INVALID_ARGS", "PATH_DENIED"}
    assert text in result.failure.message
    assert images.files() == {}
    assert images.endpoint.bodies == []


async def test_a_shape_that_the_model_does_not_make_is_refused_before_anything_is_paid(images):
    images.use(model="dall-e-2")
    code, message, _ = await images.failure(aspect_ratio="landscape")
    assert code == "INVALID_ARGS"
    assert "only square images" in message
    assert images.endpoint.bodies == []
