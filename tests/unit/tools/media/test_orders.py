"""What is asked for: sizes by model and shape, and the parameters that each model takes."""

from typing import get_args

import pytest

from interlock.core.errors import ToolError
from interlock.tools.media.image_format import ImageFormat
from interlock.tools.media.image_request import AspectRatio, ImageRequest, size_for
from tests.harness.case_tables import each_row


@pytest.mark.parametrize(
    ("model", "square", "wide", "tall"),
    [
        ("gpt-image-1", "1024x1024", "1536x1024", "1024x1536"),
        ("gpt-image-1-mini", "1024x1024", "1536x1024", "1024x1536"),
        ("openai/GPT-Image-1.5", "1024x1024", "1536x1024", "1024x1536"),
        ("dall-e-3", "1024x1024", "1792x1024", "1024x1792"),
        ("flux-dev", "1024x1024", "1344x768", "768x1344"),
    ],
)
def test_a_shape_becomes_a_size_that_the_model_makes(model, square, wide, tall):
    assert (size_for(model, "square"), size_for(model, "1:1")) == (square, square)
    assert (size_for(model, "16:9"), size_for(model, "9:16")) == (wide, tall)


@each_row("aspect_ratio", get_args(AspectRatio))
@each_row("model", ["gpt-image-1", "dall-e-3", "some-model"])
def test_every_shape_has_a_size_that_lies_the_right_way(model, aspect_ratio):
    width, height = map(int, size_for(model, aspect_ratio).split("x"))
    named = {"square": "1:1", "landscape": "3:2", "portrait": "2:3"}.get(aspect_ratio, aspect_ratio)
    across, down = map(int, named.split(":"))
    assert (width > height) is (across > down)
    assert (width < height) is (across < down)
    if model == "some-model":
        assert width % 64 == height % 64 == 0
        assert width / height == pytest.approx(across / down, rel=0.05)


def test_dall_e_2_makes_squares():
    assert size_for("dall-e-2", "1:1") == "1024x1024"
    with pytest.raises(ToolError, match="only square images"):
        size_for("dall-e-2", "portrait")


@pytest.mark.parametrize(
    ("model", "kind", "more"),
    [
        ("dall-e-3", ImageFormat.png, {"response_format": "b64_json"}),
        ("flux", ImageFormat.jpeg, {"response_format": "b64_json"}),
        ("gpt-image-1", ImageFormat.png, {"output_format": "png"}),
        ("gpt-image-1", ImageFormat.jpeg, {"output_format": "jpeg"}),
        ("chatgpt-image-latest", ImageFormat.webp, {"output_format": "webp"}),
        ("gpt-image-1", ImageFormat.gif, {}),
    ],
)
def test_each_model_gets_the_parameters_it_takes(model, kind, more):
    body = ImageRequest("a cat", "1024x1024", kind).body(model)
    assert body == {"model": model, "prompt": "a cat", "n": 1, "size": "1024x1024", **more}
