"""Makes an image from a description, at the configured endpoint, and saves it as a new file.

The request costs money, so it is sent once and never repeated, and everything that can be refused is judged
before it. An address in the answer is fetched without the key unless it has the endpoint's own origin, and
only if all its addresses are public: an endpoint must not lead into the private network.
"""

import asyncio
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import Field

from interlock.config.image import ImageEndpoint
from interlock.core.errors import ErrorCode, ToolError
from interlock.core.text import escape_control_characters
from interlock.redaction.redactor import Redactor
from interlock.sandbox.file_changer import NewContent
from interlock.sandbox.paths import PathAccess, PathResolver, ResolvedPath
from interlock.tools.arguments import ToolArguments
from interlock.tools.files.base import WRITING_MODES, PathText, judge_paths, tool_error_from_oserror
from interlock.tools.files.write_checks import (
    WriteServices,
    change_origin,
    exists,
    make_content,
    make_touch,
    write_result,
)
from interlock.tools.media.image_file_names import candidate_names, with_extension
from interlock.tools.media.image_format import ImageFormat, ImageInfo, detect_image
from interlock.tools.media.image_request import AspectRatio, ImageRequest, size_for
from interlock.tools.media.image_response import NOT_REPEATED, ImageResponseReader, no_image_error
from interlock.tools.media.progress import periodic_progress
from interlock.tools.result import ToolResult
from interlock.tools.threads import run_in_thread
from interlock.tools.tool import (
    Effect,
    ExternalCode,
    PolicySwitch,
    TimeLimit,
    ToolContext,
    ToolGroup,
    ToolLimits,
    TypedTool,
)

if TYPE_CHECKING:
    from interlock.tools.media.image_client import GeneratedImage

MAX_PROMPT_CHARS = 32_000


@dataclass(frozen=True, slots=True)
class ImageServices:
    """The services of image tools. Without an endpoint they can be listed, but not called."""

    endpoint: ImageEndpoint | None
    redactor: Redactor
    write_services: WriteServices


@dataclass(frozen=True, slots=True)
class _Plan:
    """A judged call. `asked` is the path that was judged, with its extension."""

    asked: str
    place: ResolvedPath
    order: ImageRequest


class GenerateImageArguments(ToolArguments):
    prompt: str = Field(
        min_length=1, max_length=MAX_PROMPT_CHARS, description="A description of the image."
    )
    path: PathText = Field(
        description="The new file, relative to the first opened folder or absolute. The extension "
        "selects the format; the default is PNG."
    )
    aspect_ratio: AspectRatio = Field(
        default="square", description="The shape. Default: square. The nearest size of the model is used."
    )


class GenerateImageTool(TypedTool):
    name = "generate_image"
    description = (
        "Generate one image from a description and save it as a new file (.png, .jpg, "
        ".webp). Every call costs money: never repeat a failed call without asking the user."
    )
    arguments = GenerateImageArguments
    group = ToolGroup.media
    allowed_modes = WRITING_MODES
    effect = Effect.special
    switches = frozenset({PolicySwitch.fs, PolicySwitch.image})
    needs = frozenset({"roots", "endpoint:images"})
    external = ExternalCode()

    def __init__(self, services: ImageServices) -> None:
        self._services = services

    def time_limit(self, arguments: GenerateImageArguments, limits: ToolLimits) -> TimeLimit:  # noqa: ARG002
        endpoint = self._services.endpoint
        seconds = endpoint.timeout_seconds if endpoint is not None else limits.timeout_seconds
        return TimeLimit(seconds, enforced_by_tool=True)

    # -- before any cost --

    async def prepare(self, arguments: GenerateImageArguments, context: ToolContext) -> _Plan:
        return await judge_paths(arguments, context, self._judge)

    def _judge(
        self, arguments: GenerateImageArguments, resolver: PathResolver, _context: ToolContext
    ) -> _Plan:
        prompt, asked = arguments.prompt, arguments.path
        if not prompt.strip():
            raise ToolError(ErrorCode.INVALID_ARGS, "prompt: is blank", "Describe the image.")
        size = size_for(self._endpoint.model, arguments.aspect_ratio)
        named, kind = with_extension(asked)
        place = resolver.find(named, PathAccess.write)
        if exists(resolver, place):
            raise _exists_already(named, kind, resolver, place)
        _refuse_closed_folder(resolver, place)
        return _Plan(named, place, ImageRequest(prompt, size, kind))

    @property
    def _endpoint(self) -> ImageEndpoint:
        endpoint = self._services.endpoint
        if endpoint is None:
            raise ToolError(ErrorCode.TOOL_NOT_AVAILABLE, "there is no endpoint", "Tell the user.")
        return endpoint

    # -- the request, and the file --

    async def execute(self, prepared: _Plan, context: ToolContext) -> ToolResult:
        size, model = prepared.order.size, self._endpoint.model
        context.report_progress(
            f"requesting an image of {size} pixels from {escape_control_characters(model)}"
        )
        made = await self._made(prepared, context)
        picture = detect_image(made.image)
        if picture is None:
            raise no_image_error("it is not PNG, JPEG, WebP or GIF")
        context.report_progress(f"received {len(made.image)} bytes, saving")
        result = await run_in_thread(context.cancel, lambda: self._saved(prepared, made, picture, context))
        context.report_progress(result.stdout.strip())
        return result

    async def _made(self, plan: _Plan, context: ToolContext) -> "GeneratedImage":
        # The HTTP library is large, and this is the only tool that needs it.
        from interlock.tools.media.image_client import request_image

        endpoint = self._endpoint
        reader = ImageResponseReader(
            endpoint.model, context.limits.max_image_bytes, self._services.redactor
        )
        # From here on it may be charged, whether or not the caller still waits.
        context.cancel.begin_effect()
        try:
            async with (
                asyncio.timeout(context.timeout_seconds),
                periodic_progress(context.report_progress) as heard,
            ):
                return await request_image(endpoint, plan.order, reader, heard, context.cancel)
        except TimeoutError:
            raise ToolError(
                ErrorCode.TIMEOUT,
                f"the endpoint returned no complete image within {context.timeout_seconds:g} "
                "seconds (IMAGE_TIMEOUT_SECONDS); nothing was written",
                NOT_REPEATED,
            ) from None

    def _saved(
        self, plan: _Plan, made: "GeneratedImage", picture: ImageInfo, context: ToolContext
    ) -> ToolResult:
        resolver, new = PathResolver(context.profile), make_content(made.image)
        try:
            place, kept = self._put(plan, new, picture.kind, resolver, context)
        except OSError as error:
            raise _lost(tool_error_from_oserror(error, resolver.shown(plan.place))) from error
        except ToolError as error:
            raise _lost(error) from error
        shown, size, shape = resolver.shown(place), len(new.data), f"{picture.width} x {picture.height}"
        renamed = "" if place == plan.place else _why(plan, picture, resolver.shown(plan.place))
        result = write_result(
            f"created {shown}: {picture.kind} image, {shape} pixels, {size} bytes{renamed}",
            kept=kept,
            # The model has not seen its content.
            touched=(make_touch(str(place.path), "created", new.sha256, size, (0, 0)),),
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
        self, plan: _Plan, new: NewContent, kind: ImageFormat, resolver: PathResolver, context: ToolContext
    ) -> tuple[ResolvedPath, bool]:
        """Save under the requested name, or a similar one: a paid image is not discarded."""
        for asked in candidate_names(plan.asked, kind):
            place = resolver.find(asked, PathAccess.write)
            if exists(resolver, place):
                continue
            try:
                return place, self._services.write_services.changes.create(
                    resolver, place, new, change_origin(context), context.cancel.begin_effect
                )
            except ToolError as error:
                # Another process created a file of that name just now.
                if error.error_code is not ErrorCode.STALE_READ:
                    raise
        raise _taken(resolver.shown(plan.place), "Choose another path.")


def _why(plan: _Plan, picture: ImageInfo, wanted: str) -> str:
    if picture.kind is not plan.order.kind:
        return f" (not {wanted}: the endpoint returned a {picture.kind})"
    return f" (not {wanted}: that file was created in the meantime)"


def _exists_already(
    asked: str, kind: ImageFormat, resolver: PathResolver, place: ResolvedPath
) -> ToolError:
    """An image never replaces a file; suggest a free name."""
    for other in candidate_names(asked, kind):
        free = resolver.find(other, PathAccess.write)
        if not exists(resolver, free):
            return _taken(
                resolver.shown(place), f"Choose another path, for example {resolver.shown(free)}."
            )
    return _taken(resolver.shown(place), "Choose another path.")


def _taken(shown: str, next_action: str) -> ToolError:
    return ToolError(
        ErrorCode.EXECUTION_ERROR,
        f"{shown} already exists; images do not replace files",
        next_action,
        is_an_answer=True,
    )


def _refuse_closed_folder(resolver: PathResolver, place: ResolvedPath) -> None:
    """Check write permission before any cost. The directory is checked again when writing."""
    above = place.parts[: len(place.parts) - 1 - resolver.missing_folders(place)]
    if not os.access(place.root.joinpath(*above), os.W_OK | os.X_OK):
        raise ToolError(
            ErrorCode.EXECUTION_ERROR,
            f"{resolver.shown(place)}: Interlock's account has no write permission there",
            "Choose another folder, or tell the user.",
            is_an_answer=True,
        )


def _lost(error: ToolError) -> ToolError:
    return ToolError(
        error.error_code,
        f"the image was generated but could not be written, so it is lost: {error.message}",
        f"{error.next_action} {NOT_REPEATED}",
    )
