"""The page's modules in Node, without a browser: those that only reckon."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

JS = Path(__file__).parents[1] / "js"
MODULES = Path(__file__).parents[2] / "src" / "interlock" / "gateway" / "static" / "js"
SECONDS = 120


def node(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    program = shutil.which("node")
    if program is None:
        pytest.skip("no node on PATH: the page's modules are tested with it")
    command = [program, "--import", str(JS / "setup.js"), *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=SECONDS)


def evaluate_in_node(module: str, expression: str, given: object = None) -> Any:
    """What an expression comes to that knows a module's names as `m.name`, and `given`."""
    script = f"""
        import {{ readFileSync }} from 'node:fs';
        const m = await import({json.dumps((MODULES / module).as_uri())});
        const given = JSON.parse(readFileSync(0, 'utf8'));
        console.log(JSON.stringify({expression}));"""
    done = node("--input-type=module", "--eval", script, given=json.dumps(given))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
