"""The HTTP library is large: it is loaded by a call, never by a start."""

import subprocess
import sys


def test_building_everything_loads_no_http_library():
    code = (
        "import sys, interlock.wiring; interlock.wiring.build_registry(); print('aiohttp' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
