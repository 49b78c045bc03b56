"""Environments of peers from the registry, each made once, below `.bench-peers`."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
ENVIRONMENTS = ROOT / ".bench-peers"


def python_with(name: str, *packages: str) -> Path:
    """The interpreter of that environment, which is made if it is not there."""
    home = ENVIRONMENTS / name
    if not (home / "made").exists():
        print(f"making an environment for {name}", flush=True)
        uv = shutil.which("uv") or str(ROOT / ".tools/bin/uv")
        subprocess.run([uv, "venv", "--clear", "--quiet", "--python", sys.executable, home], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", home, *packages], check=True)
        (home / "made").touch()
    return home / "bin/python"
