"""The endpoint for images: off until a model is named, and no key goes where it does not belong."""

import pytest

from interlock.config.image import ImageEndpoint, image_endpoint
from interlock.config.settings import load_settings
from interlock.config.settings_report import MASK, describe_settings, secrets_of
from interlock.wiring import ceiling
from tests.unit.config.test_settings import refused

OWN, CHAT = "sk-images-only-1234", "sk-chat-only-5678"


def found(monkeypatch, **variables: str) -> ImageEndpoint | str:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    return image_endpoint(settings.image, settings.openai)


def key_of(endpoint: ImageEndpoint | str) -> str | None:
    assert isinstance(endpoint, ImageEndpoint)
    return endpoint.api_key.get_secret_value() if endpoint.api_key else None


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OPENAI_API_KEY": CHAT},
        {"OPENAI_API_KEY": CHAT, "OPENAI_MODEL": "gpt-5"},
        {"IMAGE_API_KEY": OWN, "IMAGE_BASE_URL": "https://images.example/v1"},
        {"IMAGE_MODEL": "", "OPENAI_API_KEY": CHAT},
        {"IMAGE_MODEL": "  ", "OPENAI_API_KEY": CHAT},
    ],
)
def test_a_key_for_chat_orders_no_images(monkeypatch, variables):
    reason = found(monkeypatch, **variables)
    assert isinstance(reason, str)
    assert "IMAGE_MODEL" in reason


def test_a_model_without_any_key_says_which_to_give(monkeypatch):
    reason = found(monkeypatch, IMAGE_MODEL="gpt-image-1")
    assert reason == "the image endpoint has no key (set IMAGE_API_KEY or OPENAI_API_KEY)"


def test_a_named_model_uses_the_endpoint_and_key_for_chat(monkeypatch):
    endpoint = found(monkeypatch, IMAGE_MODEL="gpt-image-1", OPENAI_API_KEY=CHAT)
    assert key_of(endpoint) == CHAT
    assert (endpoint.base_url, endpoint.model) == ("https://api.openai.com/v1", "gpt-image-1")
    assert endpoint.timeout_seconds == 180


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("https://api.openai.com/v1/", CHAT),
        ("https://API.openai.com:443/other", CHAT),
        ("https://api.openai.com:8443/v1", None),
        ("http://localhost:8080/v1", None),
        ("https://api.openai.com.evil.example/v1", None),
        ("https://images.example/v1", None),
    ],
)
def test_the_key_for_chat_goes_only_to_its_own_server(monkeypatch, address, key):
    endpoint = found(monkeypatch, IMAGE_MODEL="m", OPENAI_API_KEY=CHAT, IMAGE_BASE_URL=address)
    assert key_of(endpoint) == key
    assert not endpoint.base_url.endswith("/")


def test_an_own_key_comes_first(monkeypatch):
    endpoint = found(monkeypatch, IMAGE_MODEL="m", OPENAI_API_KEY=CHAT, IMAGE_API_KEY=OWN)
    assert key_of(endpoint) == OWN


def test_the_key_may_come_from_a_file_and_is_a_known_secret(monkeypatch, tmp_path):
    (tmp_path / "key").write_text(f"{OWN}\n")
    endpoint = found(monkeypatch, IMAGE_MODEL="m", IMAGE_API_KEY_FILE=str(tmp_path / "key"))
    assert key_of(endpoint) == OWN
    assert OWN not in repr(endpoint)
    settings = load_settings()
    assert OWN in secrets_of(settings)
    assert OWN not in repr(settings)
    (row,) = [row for row in describe_settings(settings) if row.name == "IMAGE_API_KEY"]
    assert (row.value, row.origin.startswith("IMAGE_API_KEY_FILE")) == (MASK, True)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("images.example/v1", "not a valid URL"),
        ("https://", "not a valid URL"),
        ("https:///v1", "not a valid URL"),
        ("https://a b/v1", "not a valid URL"),
        ("https://a\tb/v1", "not a valid URL"),
        ("https://[::1/v1", "not a valid URL"),
        ("https://images.example:99999/v1", "not a valid URL"),
        ("ftp://images.example/v1", "'ftp' is not supported"),
        ("file:///etc/passwd", "not a valid URL"),
        ("https://user:hunter2hunter2@images.example/v1", "user name or a password"),
        ("https://images.example/v1?key=hunter2hunter2", "contains ? or #"),
        ("https://images.example/v1#hunter2hunter2", "contains ? or #"),
        ("http://images.example/v1", "IMAGE_PLAIN_HTTP=true"),
        ("http://10.0.0.5:8080/v1", "IMAGE_PLAIN_HTTP=true"),
        ("http://localhost.example/v1", "IMAGE_PLAIN_HTTP=true"),
        ("http://127.0.0.1.example/v1", "IMAGE_PLAIN_HTTP=true"),
    ],
)
def test_an_unsafe_address_stops_the_start_and_is_not_repeated(monkeypatch, address, text):
    sentence = refused(monkeypatch, IMAGE_BASE_URL=address)
    assert sentence.startswith("IMAGE_BASE_URL: ")
    assert text in sentence
    assert "hunter2" not in sentence


@pytest.mark.parametrize(
    "address",
    ["http://localhost:8080/v1", "http://127.0.0.1/v1", "http://127.8.8.8/v1", "http://[::1]:80/v1"],
)
def test_plain_http_is_fine_on_this_machine(monkeypatch, address):
    assert key_of(found(monkeypatch, IMAGE_MODEL="m", IMAGE_BASE_URL=address)) is None


def test_plain_http_to_another_machine_has_to_be_said(monkeypatch):
    told = {"IMAGE_MODEL": "m", "IMAGE_BASE_URL": "http://10.0.0.5/v1", "IMAGE_PLAIN_HTTP": "true"}
    assert found(monkeypatch, **told).base_url == "http://10.0.0.5/v1"


def test_the_address_for_chat_is_judged_where_images_use_it(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://10.0.0.5/v1")
    load_settings()
    assert refused(monkeypatch, IMAGE_MODEL="m").startswith("OPENAI_BASE_URL: plain http")
    monkeypatch.setenv("IMAGE_BASE_URL", "https://images.example/v1")
    load_settings()


@pytest.mark.parametrize("variable", ["IMAGE_API_KEY", "OPENAI_API_KEY"])
@pytest.mark.parametrize("key", ["sk-a\nX-Evil: 1", "sk with-space", "sk-żółw", "sk-a\r\nb"])
def test_a_key_that_fits_no_header_stops_the_start_and_is_not_repeated(monkeypatch, variable, key):
    sentence = refused(monkeypatch, IMAGE_MODEL="m", **{variable: key})
    assert sentence.startswith(f"{variable}: ")
    assert key not in sentence
    assert "Evil" not in sentence


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("IMAGE_TIMEOUT_SECONDS", "0"),
        ("IMAGE_TIMEOUT_SECONDS", "soon"),
        ("IMAGE_MAX_BYTES", "0"),
        ("IMAGE_MAX_BYTES", str(2**26 + 1)),
        ("IMAGE_PLAIN_HTTP", "maybe"),
    ],
)
def test_a_wrong_value_names_its_variable(monkeypatch, name, value):
    assert refused(monkeypatch, **{name: value}).startswith(name)


def test_the_limit_is_a_ceiling_over_the_stored_one(monkeypatch):
    assert ceiling(load_settings()).image.max_bytes is None
    monkeypatch.setenv("IMAGE_MAX_BYTES", "1000")
    monkeypatch.setenv("TOOL_IMAGE_ENABLED", "false")
    image = ceiling(load_settings()).image
    assert (image.max_bytes, image.enabled) == (1000, False)
