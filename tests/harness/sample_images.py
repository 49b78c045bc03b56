"""Real images, as small as they can be, and as large as a test wants them."""

import base64
import struct
import zlib

GIF = base64.b64decode("R0lGODlhAgADAIAAAP///wAAACH5BAAAAAAALAAAAAACAAMAAAIChF8AOw==")
WEBP_LOSSY = base64.b64decode("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
WEBP_LOSSLESS = base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
WEBP_EXTENDED = (
    b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")
)


def png(width: int = 4, height: int = 3, *, padding: int = 0) -> bytes:
    """A grey image; `padding` bytes of it are a comment."""
    rows = b"".join(b"\0" + b"\x80" * width for _ in range(height))
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + (_chunk(b"tEXt", b"Comment\0" + b"x" * padding) if padding else b"")
        + _chunk(b"IDAT", zlib.compress(rows))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def jpeg(width: int = 7, height: int = 5, *, frame: int = 0xC0) -> bytes:
    """The segments of a photograph up to its frame header, with a thumbnail's worth of data before it."""
    exif = b"\xff\xe1" + struct.pack(">H", 2 + 300) + b"Exif\0\0" + b"\xff\xc0" * 147
    app = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0\1\1\0\0\1\0\1\0\0"
    table = b"\xff\xc4" + struct.pack(">H", 5) + b"\0\0\0"
    start = b"\xff" + bytes([frame]) + struct.pack(">HBHHB", 17, 8, height, width, 3) + b"\0" * 9
    return b"\xff\xd8" + app + exif + table + b"\xff" + start + b"\xff\xda\0\x02scan\xff\xd9"
