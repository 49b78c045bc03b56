"""`interlock tool call generate_image` as a person uses it, against an endpoint on a real socket."""

import asyncio
import json
import signal
import subprocess

import pytest

from tests.harness.cli import one_line_error
from tests.harness.image_server import KEY, ImageServer, ImageServerThread, image_reply
from tests.harness.sample_images import png

PROMPT = json.dumps({"prompt": "a red boat", "path": "art/boat.png", "aspect_ratio": "landscape"})


@pytest.fixture
def endpoint():
    served = ImageServer()
    with ImageServerThread(served):
        yield served
    assert served.faults == []


@pytest.fixture
def person(interlock, endpoint):
    """Somebody whose operator configured the endpoint."""
    interlock.variables |= {
        "IMAGE_MODEL": "dall-e-3",
        "IMAGE_BASE_URL": endpoint.base_url,
        "IMAGE_API_KEY": KEY,
        # Whatever the environment says, the prompt and the key take no other way.
        "HTTP_PROXY": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
        "ALL_PROXY": "http://127.0.0.1:9",
        "LOG_LEVEL": "debug",
    }
    (interlock.home / "work").mkdir()
    return interlock


def options(shell) -> list[str]:
    return ["--args", PROMPT, "--mode", "coding", "--root", str(shell.home / "work")]


def test_an_image_is_made_found_in_the_log_and_undone(person, endpoint):
    image = png(64, 48)
    endpoint.reply(image_reply(image))
    done = person("tool", "call", "generate_image", *options(person), "--json")
    told = json.loads(done.stdout)
    file = person.home / "work/art/boat.png"
    assert file.read_bytes() == image
    assert told["stdout"] == f"created art/boat.png: PNG image, 64 x 48 pixels, {len(image)} bytes\n"
    assert "progress  requesting an image of 1792x1024 pixels from dall-e-3" in done.stderr
    (body,) = endpoint.bodies
    assert body["prompt"] == "a red boat"
    tree = person("events", "tree", told["session_id"]).stdout
    assert "generate_image" in tree
    person("events", "verify")
    person("undo", told["call_id"])
    assert not file.parent.exists()
    everything = done.stdout + done.stderr + tree
    stored = b"".join(path.read_bytes() for path in (person.home / "state").rglob("*") if path.is_file())
    assert KEY not in everything
    assert KEY.encode() not in stored


def test_a_refused_key_is_told_without_the_key(person, endpoint):
    endpoint.reply({"error": {"message": f"Incorrect API key provided: {KEY}"}}, status=401)
    done = person("tool", "call", "generate_image", *options(person), expect=1)
    assert "rejected the API key" in done.stdout
    assert KEY not in done.stdout + done.stderr
    assert len(endpoint.bodies) == 1


def test_the_key_may_come_from_a_file(person, endpoint):
    del person.variables["IMAGE_API_KEY"]
    (person.home / "key").write_text(f"{KEY}\n")
    person.variables["IMAGE_API_KEY_FILE"] = str(person.home / "key")
    person("tool", "call", "generate_image", *options(person))
    assert len(endpoint.bodies) == 1


def test_ctrl_c_closes_the_connection_and_is_in_the_log(person, endpoint):
    reached, left = endpoint.reached, endpoint.hung_up

    async def hang(_request):
        await asyncio.Event().wait()

    endpoint.answer = hang
    command = ("tool", "call", "generate_image", *options(person))
    child = person.start(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert endpoint.waits_for(reached)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    assert child.returncode == 130
    assert endpoint.waits_for(left)
    (session,) = person.json("sessions", "list", "--group", "all")
    tree = json.dumps(person.json("events", "tree", session["id"]))
    assert "CANCELLED" in tree
    assert list((person.home / "work").iterdir()) == []


def test_without_settings_it_is_not_available_and_says_which_to_give(interlock):
    (interlock.home / "work").mkdir()
    interlock.variables["OPENAI_API_KEY"] = KEY
    done = interlock("tool", "call", "generate_image", *options(interlock), expect=3)
    assert "no image endpoint is configured (set IMAGE_MODEL and IMAGE_API_KEY" in done.stdout
    assert "TOOL_NOT_AVAILABLE (policy)" in done.stdout
    assert "generate_image is disabled" in interlock("doctor").stdout


def test_other_modes_and_switches_refuse_it(person, endpoint):
    refused = [*options(person), "--json"]
    refused[refused.index("coding")] = "chat"
    told = json.loads(person("tool", "call", "generate_image", *refused, expect=3).stdout)
    assert told["error_code"] == "MODE_DENIED"
    person("settings", "set", "tools.image.enabled", "false")
    done = person("tool", "call", "generate_image", *options(person), expect=3)
    assert "image tools are switched off in the stored settings" in done.stdout
    assert endpoint.bodies == []


def test_doctor_tells_where_images_would_be_asked_for(person, endpoint):
    (row,) = [row for row in person.json("doctor") if row["what"] == "images"]
    assert row["state"] == "ok"
    assert row["detail"].startswith(f"dall-e-3 at http://127.0.0.1:{endpoint.port}, with a key")
    del person.variables["IMAGE_MODEL"]
    (row,) = [row for row in person.json("doctor") if row["what"] == "images"]
    assert row["state"] == "warning"
    assert endpoint.bodies == []


def test_an_unsafe_address_does_not_start(interlock):
    interlock.variables["IMAGE_BASE_URL"] = "http://user:hunter2hunter2@images.example/v1"
    line = one_line_error(interlock, "tool", "list")
    assert "IMAGE_BASE_URL" in line
    assert "hunter2" not in line
