"""Erases files that somebody wants gone, and says so where it could not."""

import os
import shutil
from pathlib import Path


def remove_tree(folder: Path) -> None:
    """A folder with all that is in it; none is fine as well.

    What cannot be removed keeps nothing else. Raises `OSError` where something is left, with the reason.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if not os.path.lexists(folder):
        return
    try:
        shutil.rmtree(folder)
    except OSError as error:
        # Another process may have been faster.
        if os.path.lexists(folder):
            raise OSError(error.errno, error.strerror or str(error), str(folder)) from error
