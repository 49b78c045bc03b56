"""IMAGE_* settings: the endpoint that makes images, with the settings it falls back to."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from interlock.config.openai import OpenAISettings
from interlock.config.policy_variables import policy_variables
from interlock.config.settings_group import blank_is_unset
from interlock.config.url_checks import url_origin

IMAGE_PREFIX = "IMAGE_"
_Ceiling = policy_variables(IMAGE_PREFIX)


class ImageSettings(_Ceiling):  # type: ignore[valid-type, misc]
    """The endpoint that makes images. Naming a model switches it on."""

    model_config = SettingsConfigDict(env_prefix=IMAGE_PREFIX)

    model: str | None = None
    base_url: str | None = None
    api_key: SecretStr | None = None
    plain_http: bool = False
    timeout_seconds: Annotated[float, Field(gt=0, le=86_400)] = 180.0

    _blank_is_unset = field_validator("model", "base_url", "api_key", mode="before")(blank_is_unset)


@dataclass(frozen=True, slots=True)
class ImageEndpoint:
    """Where images are made. The key is never part of its text representation."""

    base_url: str
    model: str
    api_key: SecretStr | None
    timeout_seconds: float


def image_endpoint(image: ImageSettings, chat: OpenAISettings) -> ImageEndpoint | str:
    """The endpoint for images, or why there is none and which variables configure one.

    A key for chat does not order paid images: only a named model does. That key is sent only to the server
    it was given for.
    """
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
