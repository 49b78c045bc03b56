"""What kind of image some bytes are, and how large it is, by their own header."""

from dataclasses import dataclass
from enum import StrEnum


class ImageFormat(StrEnum):
    png = "PNG"
    jpeg = "JPEG"
    webp = "WebP"
    gif = "GIF"

    @property
    def extensions(self) -> tuple[str, ...]:
        """The usual one first."""
        return _EXTENSIONS[self]


_EXTENSIONS = {
    ImageFormat.png: (".png",),
    ImageFormat.jpeg: (".jpg", ".jpeg"),
    ImageFormat.webp: (".webp",),
    ImageFormat.gif: (".gif",),
}

# Frame headers of a JPEG. The gaps are markers for tables, not frames.
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD8)})
# A photograph has some dozens of them before its frame header.
_MAX_JPEG_SEGMENTS = 10_000


@dataclass(frozen=True, slots=True)
class ImageInfo:
    kind: ImageFormat
    width: int
    height: int


def detect_image(data: bytes) -> ImageInfo | None:
    """The format and size; None if it is not a known image, or its header is broken."""
    found = _png(data) or _gif(data) or _webp(data) or _jpeg(data)
    return found if found is not None and found.width > 0 and found.height > 0 else None


def _png(data: bytes) -> ImageInfo | None:
    if not data.startswith(b"\x89PNG\r\n\x1a\n") or data[12:16] != b"IHDR" or len(data) < 33:
        return None
    return ImageInfo(
        ImageFormat.png, int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    )


def _gif(data: bytes) -> ImageInfo | None:
    if not data.startswith((b"GIF87a", b"GIF89a")) or len(data) < 13:
        return None
    return ImageInfo(
        ImageFormat.gif, int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    )


def _webp(data: bytes) -> ImageInfo | None:
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP" or len(data) < 30:
        return None
    match data[12:16]:
        case b"VP8 ":
            if data[23:26] != b"\x9d\x01\x2a":
                return None
            size = [int.from_bytes(data[at : at + 2], "little") & 0x3FFF for at in (26, 28)]
        case b"VP8L":
            if data[20] != 0x2F:
                return None
            bits = int.from_bytes(data[21:25], "little")
            size = [(bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1]
        case b"VP8X":
            size = [int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27)]
        case _:
            return None
    return ImageInfo(ImageFormat.webp, *size)


def _jpeg(data: bytes) -> ImageInfo | None:
    """Walks the segments up to the first frame header."""
    at = 2
    if not data.startswith(b"\xff\xd8\xff"):
        return None
    for _ in range(_MAX_JPEG_SEGMENTS):
        if at + 9 > len(data) or data[at] != 0xFF:
            break
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker in _JPEG_BARE:
            at += 2
        elif marker in _JPEG_FRAMES:
            height, width = (int.from_bytes(data[at + n : at + n + 2], "big") for n in (5, 7))
            return ImageInfo(ImageFormat.jpeg, width, height)
        else:
            at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    return None
