"""Requests one image from the configured endpoint, once."""

from collections.abc import Callable
from dataclasses import dataclass

import orjson

from interlock.config.image import ImageEndpoint
from interlock.tools.http import opened_session, read_bounded, read_refusal, translate_http_errors
from interlock.tools.media.image_download import fetch_image
from interlock.tools.media.image_request import ImageRequest
from interlock.tools.media.image_response import ImageResponse, ImageResponseReader, too_large_error
from interlock.tools.threads import CancelSignal, run_in_thread_abandonable

_MADE = frozenset({200, 201})
_UNSENT = "Tell the user: the image endpoint cannot be reached. No request was sent."


@dataclass(frozen=True, slots=True)
class GeneratedImage:
    """The image, and the revised prompt, if the endpoint returns one."""

    image: bytes
    revised_prompt: str
    redacted: bool


async def request_image(
    endpoint: ImageEndpoint,
    order: ImageRequest,
    reader: ImageResponseReader,
    heard: Callable[[int], None],
    cancel: CancelSignal,
) -> GeneratedImage:
    headers = {}
    if endpoint.api_key is not None:
        headers["Authorization"] = f"Bearer {endpoint.api_key.get_secret_value()}"
    body = await _ask(endpoint, order, headers, reader, heard)
    # Decoding tens of megabytes would block the event loop.
    answer: ImageResponse = await run_in_thread_abandonable(cancel, lambda: reader.read(body))
    image = answer.image or await fetch_image(
        answer.address, endpoint.base_url, headers, reader.max_image_bytes, heard
    )
    return GeneratedImage(image, answer.revised_prompt, reader.redacted)


async def _ask(
    endpoint: ImageEndpoint,
    order: ImageRequest,
    headers: dict[str, str],
    reader: ImageResponseReader,
    heard: Callable[[int], None],
) -> bytes:
    encoded = orjson.dumps(order.body(endpoint.model))
    kinds = {"Content-Type": "application/json", "Accept": "application/json"}
    async with opened_session(headers | kinds) as session:
        with translate_http_errors("the endpoint", when_unsent=_UNSENT):
            async with session.post(
                f"{endpoint.base_url}/images/generations", data=encoded, allow_redirects=False
            ) as response:
                if response.status not in _MADE:
                    said = await read_refusal(response)
                    raise reader.refusal(response.status, said, response.headers.get("Retry-After", ""))
                body = await read_bounded(response, reader.max_bytes, heard)
    if body is None:
        raise too_large_error(reader.max_image_bytes)
    return body
