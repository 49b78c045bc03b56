"""Asks the configured endpoint for one image: one request, sent once."""

from collections.abc import Callable

import orjson

from interlock.config.endpoints import ImageEndpoint
from interlock.infra.records import dataclass
from interlock.tools.blocking import CancelSignal, looked_up
from interlock.tools.media.answers import Answer, AnswerReader, too_large
from interlock.tools.media.downloads import fetch_image
from interlock.tools.media.exchange import opened_session, read_refusal, read_up_to, told_plainly
from interlock.tools.media.orders import Order

_MADE = frozenset({200, 201})
_UNSENT = "Tell the user: the image endpoint cannot be reached. No request was sent."


@dataclass(frozen=True, slots=True)
class Made:
    """The image, and the prompt in the model's own words where it tells them."""

    image: bytes
    revised_prompt: str
    redacted: bool


async def make_image(
    endpoint: ImageEndpoint,
    order: Order,
    reader: AnswerReader,
    heard: Callable[[int], None],
    cancel: CancelSignal,
) -> Made:
    headers = {}
    if endpoint.api_key is not None:
        headers["Authorization"] = f"Bearer {endpoint.api_key.get_secret_value()}"
    body = await _ask(endpoint, order, headers, reader, heard)
    # Tens of megabytes to decode would hold up everything else.
    answer: Answer = await looked_up(cancel, lambda: reader.read(body))
    image = answer.image or await fetch_image(
        answer.address, endpoint.base_url, headers, reader.max_image_bytes, heard
    )
    return Made(image, answer.revised_prompt, reader.redacted)


async def _ask(
    endpoint: ImageEndpoint,
    order: Order,
    headers: dict[str, str],
    reader: AnswerReader,
    heard: Callable[[int], None],
) -> bytes:
    encoded = orjson.dumps(order.body(endpoint.model))
    kinds = {"Content-Type": "application/json", "Accept": "application/json"}
    async with opened_session(headers | kinds) as session:
        with told_plainly("the endpoint", when_unsent=_UNSENT):
            async with session.post(
                f"{endpoint.base_url}/images/generations", data=encoded, allow_redirects=False
            ) as response:
                if response.status not in _MADE:
                    said = await read_refusal(response)
                    raise reader.refusal(response.status, said, response.headers.get("Retry-After", ""))
                body = await read_up_to(response, reader.max_bytes, heard)
    if body is None:
        raise too_large(reader.max_image_bytes)
    return body
