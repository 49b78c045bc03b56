"""Removes directory trees, and raises where something could not be removed."""

import os
import shutil
from pathlib import Path


def remove_tree(folder: Path) -> None:
    """Remove a directory with its content; a missing one is no error.

    One entry that cannot be removed does not keep the others. Raises `OSError` with the reason if any is
    left.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if not os.path.lexists(folder):
        return
    try:
        shutil.rmtree(folder)
    except OSError as error:
        # Another process may have removed it meanwhile.
        if os.path.lexists(folder):
            raise OSError(error.errno, error.strerror or str(error), str(folder)) from error
