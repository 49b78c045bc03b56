"""What a file is called: the extension fits, and the rest of the path is left as it was asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.core.errors import ToolError
from interlock.tools.media.image_file_names import SPARE_NAMES, candidate_names, with_extension
from interlock.tools.media.image_format import ImageFormat


@pytest.mark.parametrize(
    ("asked", "named", "kind"),
    [
        ("a.png", "a.png", ImageFormat.png),
        ("a.JPG", "a.JPG", ImageFormat.jpeg),
        ("a/b.jpeg", "a/b.jpeg", ImageFormat.jpeg),
        ("a.tar.webp", "a.tar.webp", ImageFormat.webp),
        ("a.gif", "a.gif", ImageFormat.gif),
        ("a", "a.png", ImageFormat.png),
        ("v1.0/a", "v1.0/a.png", ImageFormat.png),
        (".hidden", ".hidden.png", ImageFormat.png),
        ("../x/.png", "../x/.png.png", ImageFormat.png),
    ],
)
def test_a_path_has_the_extension_of_an_image(asked, named, kind):
    assert with_extension(asked) == (named, kind)


@pytest.mark.parametrize(
    "asked", ["", "/", "a/", ".", "..", "a/..", "a/.", "a.svg", "a.png.exe", "a.p\x1bng"]
)
def test_a_path_that_names_no_image_is_refused(asked):
    with pytest.raises(ToolError) as raised:
        with_extension(asked)
    assert raised.value.message.isprintable()


def test_the_first_name_is_the_one_asked_for_and_the_others_are_beside_it():
    names = list(candidate_names("a/b.jpeg", ImageFormat.jpeg))
    assert names[:3] == ["a/b.jpeg", "a/b-2.jpeg", "a/b-3.jpeg"]
    assert len(set(names)) == SPARE_NAMES + 1
    assert next(candidate_names("a/b.jpeg", ImageFormat.png)) == "a/b.png"


@given(st.text(max_size=40), st.sampled_from(list(ImageFormat)))
def test_no_path_leads_to_another_folder(asked, kind):
    try:
        named, promised = with_extension(asked)
    except ToolError:
        return
    assert next(candidate_names(named, promised)) == named
    folder = asked.rpartition("/")[0]
    for name in candidate_names(named, kind):
        assert name.rpartition("/")[0] == folder
        assert name.lower().endswith(kind.extensions)
