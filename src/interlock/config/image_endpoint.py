"""The endpoint for images, with the settings it falls back to."""

from dataclasses import dataclass

from pydantic import SecretStr

from interlock.config.settings import Settings
from interlock.config.url_checks import url_origin


@dataclass(frozen=True, slots=True)
class ImageEndpoint:
    """Where images are made. The key is never part of its text representation."""

    base_url: str
    model: str
    api_key: SecretStr | None
    timeout_seconds: float


def image_endpoint(settings: Settings) -> ImageEndpoint | str:
    """The endpoint for images, or why there is none and which variables configure one.

    A key for chat does not order paid images: only a named model does. That key is sent only to the server
    it was given for.
    """
    image, chat = settings.image, settings.openai
    if image.model is None:
        return (
            "no image endpoint is configured (set IMAGE_MODEL and IMAGE_API_KEY, and "
            "IMAGE_BASE_URL for another server)"
        )
    base_url = image.base_url or chat.base_url
    key = image.api_key
    if key is None and chat.api_key and url_origin(base_url) == url_origin(chat.base_url):
        key = chat.api_key
    if key is None and image.base_url is None:
        return "the image endpoint has no key (set IMAGE_API_KEY or OPENAI_API_KEY)"
    return ImageEndpoint(base_url.rstrip("/"), image.model, key, image.timeout_seconds)
