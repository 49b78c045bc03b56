"""Searches a folder again and again, to be run several times at once: STORE FOLDER COUNT."""

import sys
from pathlib import Path

from interlock.db.database import StoreConfig, open_database
from tests.integration.memory.conftest import MemoryHarness


def main() -> None:
    url, folder, count = sys.argv[1:4]
    database = open_database(StoreConfig(url, busy_timeout_seconds=20))
    memory = MemoryHarness(database, Path(folder))
    for _ in range(int(count)):
        found = memory.search("boiler entry", 50)
        assert not found.problem, found.problem
        paths = [hit.path for hit in found.hits]
        assert len(paths) == len(set(paths)), paths
    database.close()


if __name__ == "__main__":
    main()
