"""A write after its read, and what a write may not leave behind."""

from tests.harness.tool_calls import ToolHarness


def leftovers(make_harness: ToolHarness) -> list[str]:
    """Temporary names that should be gone."""
    return [path.name for path in make_harness.root.rglob("*") if ".interlock-" in path.name]


async def read_then(make_harness: ToolHarness, path: str, content: str, **more):
    await make_harness.ok("read_file", path=path)
    return await make_harness.ok("write_file", path=path, content=content, **more)
