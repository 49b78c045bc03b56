"""What somebody reads to get something done can be followed."""

import pytest

from tests.e2e.docs.following import HOW_TOS, follow


@pytest.mark.full
@pytest.mark.parametrize("page", HOW_TOS)
def test_a_page_can_be_followed_to_the_letter(page, tmp_path, request):
    follow(page, tmp_path, request)
