"""Makes an image from a description, at the configured endpoint, and saves it as a new file.

The request costs money, so it is sent once and never repeated, and everything that can be refused is judged
before it. An address in the answer is fetched without the key unless it has the endpoint's own origin, and
only if all its addresses are public: an endpoint must not lead into the private network.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from interlock.config.endpoints import ImageEndpoint
from interlock.infra.errors import ErrorCode, ToolError
from interlock.infra.records import dataclass
from interlock.infra.text import visible
from interlock.redaction.redactor import Redactor
from interlock.sandbox.changes import NewContent
from interlock.sandbox.paths import Access, Place, Territory
from interlock.tools.base import Effect, PolicySwitch, ToolContext, ToolGroup, ToolLimits, ToolMode
from interlock.tools.blocking import beside_the_loop
from interlock.tools.files.base import FILE_PATH, WRITING_MODES, FileTool, told
from interlock.tools.files.writing import (
    WritingDesk,
    exists,
    new_content,
    origin_of,
    told_as,
    touch_of,
)
from interlock.tools.media.answers import NOT_REPEATED, AnswerReader, no_image
from interlock.tools.media.names import names_for, with_extension
from interlock.tools.media.orders import ASPECT_RATIOS, Order, size_for
from interlock.tools.media.pictures import Kind, Picture, picture_in
from interlock.tools.media.progress import telling
from interlock.tools.result import ToolResult

if TYPE_CHECKING:
    from interlock.tools.media.asking import Made

MAX_PROMPT_CHARS = 32_000


@dataclass(frozen=True, slots=True)
class ImageServices:
    """What image tools need of the world. Without an endpoint they can be looked at, and not called."""

    endpoint: ImageEndpoint | None
    redactor: Redactor
    desk: WritingDesk


@dataclass(frozen=True, slots=True)
class _Plan:
    """`asked` is the path that was judged, with its extension."""

    asked: str
    place: Place
    order: Order


class GenerateImageTool(FileTool[_Plan]):
    def __init__(self, services: ImageServices) -> None:
        self._services = services

    @property
    def is_carried_out_elsewhere(self) -> bool:
        return True

    @property
    def name(self) -> str:
        return "generate_image"

    @property
    def description(self) -> str:
        return (
            "Generate one image from a description and save it as a new file (.png, .jpg, "
            ".webp). Every call costs money: never repeat a failed call without asking the user."
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {
            "type": "object",
            "properties": {
                "prompt": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": MAX_PROMPT_CHARS,
                    "description": "A description of the image.",
                },
                "path": {
                    **FILE_PATH,
                    "description": "The new file, relative to the first opened folder or "
                    "absolute. The extension selects the format; the default is "
                    "PNG.",
                },
                "aspect_ratio": {
                    "type": "string",
                    "enum": list(ASPECT_RATIOS),
                    "description": "The shape. Default: square. The nearest size of the model is used.",
                },
            },
            "required": ["prompt", "path"],
        }

    @property
    def group(self) -> ToolGroup:
        return ToolGroup.media

    @property
    def effect(self) -> Effect:
        return Effect.special

    @property
    def allowed_modes(self) -> frozenset[ToolMode]:
        return WRITING_MODES

    @property
    def switches(self) -> frozenset[PolicySwitch]:
        return frozenset({PolicySwitch.fs, PolicySwitch.image})

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"roots", "endpoint:images"})

    @property
    def ends_in_time(self) -> bool:
        return True

    def timeout_seconds(self, arguments: Mapping[str, Any], limits: ToolLimits) -> float:  # noqa: ARG002
        endpoint = self._services.endpoint
        return endpoint.timeout_seconds if endpoint is not None else limits.timeout_seconds

    def subject(self, plan: _Plan, territory: Territory) -> str:
        return territory.shown(plan.place)

    # -- before anything is paid for --

    def judge(self, arguments: Mapping[str, Any], territory: Territory, context: ToolContext) -> _Plan:  # noqa: ARG002
        prompt, asked = arguments["prompt"], arguments["path"]
        if not prompt.strip():
            raise ToolError(ErrorCode.INVALID_ARGS, "prompt: is blank", "Describe the image.")
        size = size_for(self._endpoint.model, arguments.get("aspect_ratio", "square"))
        named, kind = with_extension(asked)
        place = territory.find(named, Access.write)
        if exists(territory, place):
            raise _exists_already(named, kind, territory, place)
        _refuse_closed_folder(territory, place)
        return _Plan(named, place, Order(prompt, size, kind))

    @property
    def _endpoint(self) -> ImageEndpoint:
        endpoint = self._services.endpoint
        if endpoint is None:
            raise ToolError(ErrorCode.TOOL_NOT_AVAILABLE, "there is no endpoint", "Tell the user.")
        return endpoint

    # -- the request, and the file --

    async def execute(self, prepared: _Plan, context: ToolContext) -> ToolResult:
        size, model = prepared.order.size, self._endpoint.model
        context.report_progress(f"requesting an image of {size} pixels from {visible(model)}")
        made = await self._made(prepared, context)
        picture = picture_in(made.image)
        if picture is None:
            raise no_image("it is not PNG, JPEG, WebP or GIF")
        context.report_progress(f"received {len(made.image)} bytes, saving")
        result = await beside_the_loop(
            context.cancel, lambda: self._saved(prepared, made, picture, context)
        )
        context.report_progress(result.stdout.strip())
        return result

    async def _made(self, plan: _Plan, context: ToolContext) -> "Made":
        # The HTTP library is large, and this is the only tool that needs it.
        from interlock.tools.media.asking import make_image

        endpoint = self._endpoint
        reader = AnswerReader(endpoint.model, context.limits.max_image_bytes, self._services.redactor)
        # From here on it may be charged for, whether anybody waits for it or not.
        context.cancel.begin_effect()
        try:
            async with asyncio.timeout(context.timeout_seconds), telling(context.report_progress) as heard:
                return await make_image(endpoint, plan.order, reader, heard, context.cancel)
        except TimeoutError:
            raise ToolError(
                ErrorCode.TIMEOUT,
                f"the endpoint returned no complete image within {context.timeout_seconds:g} "
                "seconds (IMAGE_TIMEOUT_SECONDS); nothing was written",
                NOT_REPEATED,
            ) from None

    def _saved(self, plan: _Plan, made: "Made", picture: Picture, context: ToolContext) -> ToolResult:
        territory, new = Territory(context.profile), new_content(made.image)
        try:
            place, kept = self._put(plan, new, picture.kind, territory, context)
        except OSError as error:
            raise _lost(told(error, self.subject(plan, territory))) from error
        except ToolError as error:
            raise _lost(error) from error
        shown, size, shape = territory.shown(place), len(new.data), f"{picture.width} x {picture.height}"
        renamed = "" if place == plan.place else _why(plan, picture, self.subject(plan, territory))
        result = told_as(
            f"created {shown}: {picture.kind} image, {shape} pixels, {size} bytes{renamed}",
            kept=kept,
            # The model has not seen what is in it.
            touched=(touch_of(str(place.path), "created", new.sha256, size, (0, 0)),),
            path=shown,
            bytes_written=size,
            kind=picture.kind.value,
            width=picture.width,
            height=picture.height,
            model=self._endpoint.model,
            **({"revised_prompt": made.revised_prompt} if made.revised_prompt else {}),
        )
        return replace(result, redacted=made.redacted)

    def _put(
        self, plan: _Plan, new: NewContent, kind: Kind, territory: Territory, context: ToolContext
    ) -> tuple[Place, bool]:
        """Under the name that was asked for, or one beside it: what was paid for is not dropped."""
        for asked in names_for(plan.asked, kind):
            place = territory.find(asked, Access.write)
            if exists(territory, place):
                continue
            try:
                return place, self._services.desk.changes.create(
                    territory, place, new, origin_of(context), context.cancel.begin_effect
                )
            except ToolError as error:
                # Somebody else has made a file of that name at this moment.
                if error.error_code is not ErrorCode.STALE_READ:
                    raise
        raise _taken(self.subject(plan, territory), "Choose another path.")


def _why(plan: _Plan, picture: Picture, wanted: str) -> str:
    if picture.kind is not plan.order.kind:
        return f" (not {wanted}: the endpoint returned a {picture.kind})"
    return f" (not {wanted}: that file was created in the meantime)"


def _exists_already(asked: str, kind: Kind, territory: Territory, place: Place) -> ToolError:
    """An image never replaces a file; a free name saves the model a guess."""
    for other in names_for(asked, kind):
        free = territory.find(other, Access.write)
        if not exists(territory, free):
            return _taken(
                territory.shown(place), f"Choose another path, for example {territory.shown(free)}."
            )
    return _taken(territory.shown(place), "Choose another path.")


def _taken(shown: str, next_action: str) -> ToolError:
    return ToolError(
        ErrorCode.EXECUTION_ERROR,
        f"{shown} already exists; images do not replace files",
        next_action,
        is_an_answer=True,
    )


def _refuse_closed_folder(territory: Territory, place: Place) -> None:
    """Before it is paid for. What the folder is at the time of writing is judged then."""
    above = place.parts[: len(place.parts) - 1 - territory.missing_folders(place)]
    if not os.access(place.root.joinpath(*above), os.W_OK | os.X_OK):
        raise ToolError(
            ErrorCode.EXECUTION_ERROR,
            f"{territory.shown(place)}: Interlock's account has no write permission there",
            "Choose another folder, or tell the user.",
            is_an_answer=True,
        )


def _lost(error: ToolError) -> ToolError:
    return ToolError(
        error.error_code,
        f"the image was generated but could not be written, so it is lost: {error.message}",
        f"{error.next_action} {NOT_REPEATED}",
    )
