"""A write after its read, and what a write may not leave behind."""

from tests.integration.workbench import Workbench


def leftovers(bench: Workbench) -> list[str]:
    """Temporary names that should be gone."""
    return [path.name for path in bench.root.rglob("*") if ".interlock-" in path.name]


async def read_then(bench: Workbench, path: str, content: str, **more):
    await bench.ok("read_file", path=path)
    return await bench.ok("write_file", path=path, content=content, **more)
