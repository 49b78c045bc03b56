"""`python -m interlock` is `interlock`."""

import os
import sys
from contextlib import suppress


def _forget_where_one_stands() -> None:
    """Python would look for modules there first, and agents may write there. The command does not look."""
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - nothing is loaded yet
    with suppress(OSError):
        if not sys.flags.safe_path and sys.path[0] == os.getcwd() != own:  # noqa: PTH109
            del sys.path[0]


if __name__ == "__main__":
    _forget_where_one_stands()

    from interlock.cli.main import main

    main()
