"""Images are told by their own bytes, and no bytes make that fail."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.tools.media.image_format import ImageFormat, ImageInfo, detect_image
from tests.harness.case_tables import each_row
from tests.harness.sample_images import GIF, WEBP_EXTENDED, WEBP_LOSSLESS, WEBP_LOSSY, jpeg, png

IMAGES = [png(), jpeg(), GIF, WEBP_LOSSY, WEBP_LOSSLESS, WEBP_EXTENDED]


@pytest.mark.parametrize(
    ("data", "picture"),
    [
        (png(640, 480), ImageInfo(ImageFormat.png, 640, 480)),
        (png(70_000, 1), ImageInfo(ImageFormat.png, 70_000, 1)),
        (jpeg(800, 600), ImageInfo(ImageFormat.jpeg, 800, 600)),
        (jpeg(800, 600, frame=0xC2), ImageInfo(ImageFormat.jpeg, 800, 600)),
        (GIF, ImageInfo(ImageFormat.gif, 2, 3)),
        (WEBP_LOSSY, ImageInfo(ImageFormat.webp, 1, 1)),
        (WEBP_LOSSLESS, ImageInfo(ImageFormat.webp, 1, 1)),
        (WEBP_EXTENDED, ImageInfo(ImageFormat.webp, 640, 480)),
    ],
    ids=[
        "png",
        "wide png",
        "jpeg",
        "progressive jpeg",
        "gif",
        "lossy webp",
        "lossless webp",
        "extended webp",
    ],
)
def test_the_kind_and_the_size_are_in_the_header(data, picture):
    assert detect_image(data) == picture


@each_row(
    "data",
    [
        b"",
        b"\x89PNG\r\n\x1a\n",
        png(0, 5),
        png()[:16],
        png().replace(b"IHDR", b"iHDR"),
        jpeg(0, 5),
        b"\xff\xd8\xff",
        b"\xff\xd8\xff\xda\0\0" + b"\0" * 50,
        b"\xff\xd8" + b"\xff" * 1000,
        b"\xff\xd8" + b"\xff\xe0\0\0" * 1000,
        b"GIF89a",
        b"RIFF\0\0\0\0WAVEfmt " + b"\0" * 30,
        WEBP_LOSSY.replace(b"VP8 ", b"VP9 "),
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"BM" + b"\0" * 100,
        b"%PDF-1.7",
    ],
    ids=lambda data: repr(data[:24]),
)
def test_what_is_no_image_of_a_known_kind_is_none(data):
    assert detect_image(data) is None


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: repr(image[:12]))
def test_an_image_cut_anywhere_is_told_right_or_not_at_all(image):
    whole = detect_image(image)
    assert {detect_image(image[:end]) for end in range(len(image))} <= {whole, None}


@given(st.sampled_from(IMAGES), st.binary(max_size=64), st.integers(0, 64))
@example(jpeg(), b"\xff" * 64, 2)
def test_no_bytes_make_it_fail(image, noise, at):
    picture = detect_image(image[:at] + noise + image[at + len(noise) :])
    assert picture is None or (picture.width > 0 and picture.height > 0)


def test_a_chain_of_segments_is_walked_only_so_far():
    segment = b"\xff\xe0\0\x02"
    assert detect_image(b"\xff\xd8" + segment * 1000 + jpeg()[2:]) == ImageInfo(ImageFormat.jpeg, 7, 5)
    assert detect_image(b"\xff\xd8" + segment * 20_000 + jpeg()[2:]) is None
