"""Builds the body of an image request, for the configured model.

Models differ in sizes and accepted parameters. What is not known of a model is left to the endpoint, whose
refusal is reported.
"""

from dataclasses import dataclass
from typing import Any, Literal

from interlock.core.errors import ErrorCode, ToolError
from interlock.tools.media.image_format import ImageFormat

AspectRatio = Literal["square", "landscape", "portrait", "1:1", "3:2", "2:3", "4:3", "3:4", "16:9", "9:16"]

_WIDE = frozenset({"landscape", "3:2", "4:3", "16:9"})
_TALL = frozenset({"portrait", "2:3", "3:4", "9:16"})

# About a million pixels, in multiples of 64: the training sizes of open models.
_COMMON_SIZES = {
    "square": "1024x1024",
    "1:1": "1024x1024",
    "landscape": "1216x832",
    "3:2": "1216x832",
    "portrait": "832x1216",
    "2:3": "832x1216",
    "4:3": "1152x896",
    "3:4": "896x1152",
    "16:9": "1344x768",
    "9:16": "768x1344",
}


@dataclass(frozen=True, slots=True)
class _ModelFamily:
    """Models that begin alike. `wide` and `tall` are empty where they make squares only."""

    prefixes: tuple[str, ...]
    wide: str
    tall: str
    chooses_kind: bool = False

    def size(self, aspect_ratio: str) -> str:
        if aspect_ratio in _WIDE:
            return self.wide
        return self.tall if aspect_ratio in _TALL else "1024x1024"


_FAMILIES = (
    # They always answer in base64, refuse `response_format`, and make the kind of file that is asked for.
    _ModelFamily(("gpt-image", "chatgpt-image"), "1536x1024", "1024x1536", chooses_kind=True),
    _ModelFamily(("dall-e-3",), "1792x1024", "1024x1792"),
    _ModelFamily(("dall-e-2",), "", ""),
)


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """One image to be made. `kind` is what its file's name promises."""

    prompt: str
    size: str
    kind: ImageFormat

    def body(self, model: str) -> dict[str, Any]:
        body: dict[str, Any] = {"model": model, "prompt": self.prompt, "n": 1, "size": self.size}
        family = _family_of(model)
        if family is None or not family.chooses_kind:
            return body | {"response_format": "b64_json"}
        # They make no GIF; then the image is named for what it is.
        return body if self.kind is ImageFormat.gif else body | {"output_format": self.kind.name}


def size_for(model: str, aspect_ratio: str) -> str:
    family = _family_of(model)
    size = _COMMON_SIZES[aspect_ratio] if family is None else family.size(aspect_ratio)
    if not size:
        raise ToolError(
            ErrorCode.INVALID_ARGS,
            f"aspect_ratio: the model {model} generates only square images",
            "Request a square image.",
        )
    return size


def _family_of(model: str) -> _ModelFamily | None:
    # Gateways prepend the vendor's name: openai/gpt-image-1.
    name = model.rsplit("/", 1)[-1].lower()
    return next((family for family in _FAMILIES if name.startswith(family.prefixes)), None)
