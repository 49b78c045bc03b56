"""File names of images: the extension states the format."""

from collections.abc import Iterator

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.text import safe_excerpt
from interlock.tools.media.image_format import ImageFormat

FORMAT_OF_EXTENSION = {extension: kind for kind in ImageFormat for extension in kind.extensions}

# How many other names are tried for an image whose own name was taken while it was made.
SPARE_NAMES = 20


def with_extension(asked: str) -> tuple[str, ImageFormat]:
    """The path with an image extension, and the format it means."""
    if asked.rpartition("/")[2] in {"", ".", ".."}:
        raise ToolError(ErrorCode.INVALID_ARGS, "path: must name a file", "Write it as folder/picture.png.")
    _, extension = _parted(asked)
    if not extension:
        return f"{asked}.png", ImageFormat.png
    kind = FORMAT_OF_EXTENSION.get(extension.lower())
    if kind is None:
        raise ToolError(
            ErrorCode.INVALID_ARGS,
            f"path: {safe_excerpt(extension, 20)} is not the extension of an image",
            f"Use one of {', '.join(FORMAT_OF_EXTENSION)}.",
        )
    return asked, kind


def candidate_names(asked: str, kind: ImageFormat) -> Iterator[str]:
    """The requested path, with an extension that fits the image, then similar ones."""
    stem, extension = _parted(asked)
    if extension.lower() not in kind.extensions:
        extension = kind.extensions[0]
    yield stem + extension
    for number in range(2, SPARE_NAMES + 2):
        yield f"{stem}-{number}{extension}"


def _parted(asked: str) -> tuple[str, str]:
    """The path without its extension, and the extension. The text is unchanged: it is judged later."""
    folder, slash, name = asked.rpartition("/")
    stem, dot, extension = name.rpartition(".")
    # A leading dot hides a file; it begins no extension.
    if not stem.strip(".") or not extension:
        return asked, ""
    return f"{folder}{slash}{stem}", f"{dot}{extension}"
