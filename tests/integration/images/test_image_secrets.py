"""The key is sent to the endpoint, and is found nowhere else: not in the store, the log, the results."""

import base64
import logging
from urllib.parse import quote

import pytest

from interlock.core.logging import log_to_stderr, set_log_redaction
from tests.harness.image_server import KEY, image_reply
from tests.harness.sample_images import png


def forms() -> list[bytes]:
    raw = KEY.encode()
    return [raw, base64.b64encode(raw)[:-4], quote(KEY).encode(), raw[:16]]


def stored(images) -> bytes:
    """Everything on disk of this Interlock, the kept versions and the write-ahead log included."""
    folder = images.bench.root.parent
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def echo(_request=None) -> dict:
    """An endpoint that repeats the key wherever it can."""
    return {
        "error": {"message": f"bad key {KEY}, again {base64.b64encode(KEY.encode()).decode()}", "code": KEY}
    }


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 429, 500])
async def test_an_endpoint_that_repeats_the_key_tells_nobody(images, status, capsys, caplog):
    caplog.set_level(logging.DEBUG)
    set_log_redaction(images.bench.redactor.value)
    log_to_stderr("debug")
    images.endpoint.reply(echo(), status=status, headers={"Retry-After": KEY})
    result = await images.bench.call("generate_image", prompt="x", path="picture.png")
    assert result.failure is not None
    kind, payload = images.bench.last_event()
    assert (kind, payload["redacted"]) == ("tool_call.failed", "***REDACTED***" in payload["error"])
    told = repr(result) + repr(result.as_dict()) + "".join(images.bench.progress)
    everything = (
        told.encode() + stored(images) + "".join(capsys.readouterr()).encode() + caplog.text.encode()
    )
    assert [form for form in forms() if form in everything] == []


async def test_a_revised_prompt_and_an_address_that_hold_the_key_are_masked(images):
    images.endpoint.reply(image_reply(png(), revised_prompt=f"as {KEY} wished"))
    result = await images.make()
    assert result.meta["revised_prompt"] == "as ***REDACTED*** wished"
    assert images.bench.last_event()[1]["redacted"] is True
    images.endpoint.reply({"data": [{"url": f"http://{KEY}.example/{KEY}"}]})
    _, message, _ = await images.failure("other.png")
    assert KEY not in message
    assert [form for form in forms() if form in stored(images)] == []


async def test_a_key_in_the_prompt_is_sent_as_given_and_stored_masked(images):
    await images.bench.ok("generate_image", prompt=f"a sign that reads {KEY}", path="picture.png")
    assert images.endpoint.bodies[0]["prompt"] == f"a sign that reads {KEY}"
    started = next(payload for kind, payload in images.bench.events() if kind == "tool_call.started")
    assert started["arguments"]["prompt"] == "a sign that reads ***REDACTED***"
    assert started["redacted"] is True
    assert [form for form in forms() if form in stored(images)] == []


async def test_a_fault_of_our_own_shows_no_key(images, monkeypatch, capsys):
    """Whatever breaks inside, neither the model nor the process's own log is shown what was in hand."""
    from interlock.tools.media import image_client

    def broken(*_arguments, **_options):
        raise RuntimeError(f"with {KEY}")

    monkeypatch.setattr(image_client, "request", broken)
    set_log_redaction(images.bench.redactor.value)
    log_to_stderr("debug")
    _, message, _ = await images.failure()
    assert "RuntimeError" in message
    assert KEY not in message
    logged = "".join(capsys.readouterr())
    assert "tool_raised" in logged
    assert KEY not in logged
