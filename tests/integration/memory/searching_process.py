"""Searches a folder again and again, to be run several times at once: STATE_DIR FOLDER COUNT."""

import sys
from pathlib import Path

from tests.integration.memory.conftest import MemoryHarness


def main() -> None:
    state_dir, folder, count = sys.argv[1:4]
    memory = MemoryHarness(Path(state_dir), Path(folder))
    for _ in range(int(count)):
        found = memory.search("boiler entry", 50)
        assert not found.problem, found.problem
        paths = [hit.path for hit in found.hits]
        assert len(paths) == len(set(paths)), paths


if __name__ == "__main__":
    main()
