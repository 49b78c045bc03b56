"""Requests one image from the configured endpoint, once.

The endpoint may answer with a URL, which is untrusted. It is fetched from the endpoint's own origin, or
else over https from a public address, without the key.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import orjson
from yarl import URL

from interlock.config.image import ImageEndpoint
from interlock.core.errors import ErrorCode, ToolError
from interlock.core.text import safe_excerpt
from interlock.tools.http import BodyTooLarge, CompressedBody, HttpError, UnsafeUrl, parse_url, request
from interlock.tools.media.image_request import ImageRequest
from interlock.tools.media.image_response import (
    NOT_REPEATED,
    ImageResponse,
    ImageResponseReader,
    no_image_error,
    too_large_error,
)
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
    with _http_errors("the endpoint", reader.max_image_bytes, when_unsent=_UNSENT):
        response = await request(
            "POST",
            URL(f"{endpoint.base_url}/images/generations"),
            headers=headers | {"Content-Type": "application/json", "Accept": "application/json"},
            body=orjson.dumps(order.body(endpoint.model)),
            accepted=_MADE,
            max_bytes=reader.max_bytes,
            received=heard,
        )
    if response.status not in _MADE:
        raise reader.refusal(response.status, response.body, response.headers.get("Retry-After", ""))
    # Decoding tens of megabytes would block the event loop.
    answer: ImageResponse = await run_in_thread_abandonable(cancel, lambda: reader.read(response.body))
    image = answer.image or await _fetch_image(answer.address, endpoint, headers, reader, heard)
    return GeneratedImage(image, answer.revised_prompt, reader.redacted)


async def _fetch_image(
    address: str,
    endpoint: ImageEndpoint,
    headers: dict[str, str],
    reader: ImageResponseReader,
    heard: Callable[[int], None],
) -> bytes:
    """`headers` carry the key, so they go to the endpoint's own origin alone."""
    url = parse_url(address)
    if url is None:
        raise no_image_error("the URL of the image is not valid")
    is_own = url.origin() == URL(endpoint.base_url).origin()
    server = "the endpoint" if is_own else f"the image server {safe_excerpt(str(url.host), 100)}"
    with _http_errors(server, reader.max_image_bytes):
        response = await request(
            "GET",
            url,
            headers=headers if is_own else {},
            accepted={200},
            max_bytes=reader.max_image_bytes,
            public_only=not is_own,
            received=heard,
        )
    if response.status != 200:
        raise no_image_error(f"{server} did not return it (status {response.status})")
    return response.body


@contextmanager
def _http_errors(server: str, max_image_bytes: int, *, when_unsent: str = NOT_REPEATED) -> Iterator[None]:
    """`server` as the model knows it; `when_unsent` is the next action if nothing was sent."""
    try:
        yield
    except BodyTooLarge:
        raise too_large_error(max_image_bytes) from None
    except CompressedBody:
        raise no_image_error("its response is compressed, which was not requested") from None
    except UnsafeUrl as error:
        raise ToolError(
            ErrorCode.EXECUTION_ERROR,
            f"the endpoint generated the image but wants it fetched {error.how} "
            f"({safe_excerpt(error.host, 100)}); this is not done, because it could reach into this "
            "network",
            "Tell the user: the endpoint should respond with b64_json. " + NOT_REPEATED,
        ) from None
    except HttpError as error:
        step = NOT_REPEATED if error.was_sent else when_unsent
        raise ToolError(ErrorCode.EXECUTION_ERROR, f"{server} {error.reason}", step) from error
