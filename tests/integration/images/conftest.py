"""A studio for each test: the real tools, and a real endpoint that makes images."""

from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from interlock.config.image import ImageEndpoint
from interlock.tools.media import progress
from interlock.tools.result import ToolResult
from tests.harness.image_server import KEY, MODEL, ImageServer
from tests.harness.tool_calls import ToolHarness

PROMPT = "a lighthouse at dusk"


class ImageHarness:
    def __init__(self, harness: ToolHarness, endpoint: ImageServer) -> None:
        self.bench, self.endpoint = harness, endpoint
        self.use()

    def use(
        self, *, base_url: str = "", model: str = MODEL, key: str | None = KEY, seconds: float = 20
    ) -> None:
        """The settings from here on; without an address, those of the endpoint."""
        secret = SecretStr(key) if key is not None else None
        settings = ImageEndpoint(base_url or self.endpoint.base_url, model, secret, seconds)
        self.bench.open_images(settings, KEY)

    async def make(self, path: str = "picture.png", **more) -> ToolResult:
        return await self.bench.ok("generate_image", prompt=PROMPT, path=path, **more)

    async def failure(self, path: str = "picture.png", **more) -> tuple[str, str, str]:
        """The code, the message and the next step of a call that must fail and write nothing."""
        before = self.files()
        result = await self.bench.call("generate_image", {"prompt": PROMPT, "path": path, **more})
        assert result.failure is not None, result.stdout
        assert result.failure.next_action
        assert self.files() == before
        return result.failure.error_code.value, result.failure.message, result.failure.next_action

    def files(self) -> dict[str, bytes]:
        root = self.bench.root
        return {
            str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
        }


@pytest.fixture
async def images(harness: ToolHarness, monkeypatch) -> AsyncIterator[ImageHarness]:
    monkeypatch.setattr(progress, "PROGRESS_SECONDS", 0.02)
    endpoint = await ImageServer().start()
    yield ImageHarness(harness, endpoint)
    await endpoint.stop()
    assert endpoint.faults == []
