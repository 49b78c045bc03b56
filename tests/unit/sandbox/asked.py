"""What a path that is asked for holds, or why it is refused."""

import os

import pytest

from interlock.core.errors import ToolError
from interlock.sandbox.paths import PathAccess, PathResolver


def content_of(resolver: PathResolver, asked: str) -> str:
    descriptor = resolver.open(resolver.find(asked), os.O_RDONLY)
    with os.fdopen(descriptor) as stream:
        return stream.read()


def refusal(resolver: PathResolver, asked: str, access: PathAccess = PathAccess.read, **rest) -> ToolError:
    with pytest.raises(ToolError) as caught:
        resolver.find(asked, access, **rest)
    return caught.value
