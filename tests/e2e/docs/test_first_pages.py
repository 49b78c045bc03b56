"""What somebody reads first can be followed: daily the README, the others in test-full."""

import pytest

from tests.e2e.docs.following import FIRST_PAGES, follow


@pytest.mark.parametrize(
    "page", [*FIRST_PAGES[:1], *(pytest.param(page, marks=pytest.mark.full) for page in FIRST_PAGES[1:])]
)
def test_a_page_can_be_followed_to_the_letter(page, tmp_path, request):
    follow(page, tmp_path, request)
