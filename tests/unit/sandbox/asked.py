"""What a path that is asked for holds, or why it is refused."""

import os

import pytest

from interlock.infra.errors import ToolError
from interlock.sandbox.paths import Access, Territory


def content_of(territory: Territory, asked: str) -> str:
    descriptor = territory.open(territory.find(asked), os.O_RDONLY)
    with os.fdopen(descriptor) as stream:
        return stream.read()


def refusal(territory: Territory, asked: str, access: Access = Access.read, **rest) -> ToolError:
    with pytest.raises(ToolError) as caught:
        territory.find(asked, access, **rest)
    return caught.value
