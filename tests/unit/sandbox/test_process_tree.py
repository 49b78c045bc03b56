"""All that a process started is found, stopped before it is killed, and gone in the end."""

import json
import subprocess
import sys

# In a process of its own: its descendants are all there are, and none of the test run's.
TREE = """
import ctypes, json, subprocess, time
from pathlib import Path
from interlock.sandbox.child.process_tree import freeze, kill_descendants, reap

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)

def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

def eventually(holds):
    until = time.monotonic() + 5
    while not holds() and time.monotonic() < until:
        time.sleep(0.001)
    return holds()

script = "(setsid sleep 60 & echo $!; setsid sh -c 'sleep 60 & echo $!; wait') & echo $!; "
script += "sleep 60 & echo $!; wait"
top = subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, text=True)
pids = [top.pid] + [int(top.stdout.readline()) for _ in range(4)]
spared = subprocess.Popen(["/bin/sleep", "60"])
found = freeze({spared.pid})
facts = {
    "missed": sorted(set(pids) - found),
    "stopped": eventually(lambda: {state(pid) for pid in found} == {"T"}),
    "spared": spared.pid not in found and state(spared.pid) != "T",
}
statuses = {}
kill_descendants({spared.pid}, statuses)
facts["left"] = [pid for pid in found if Path(f"/proc/{pid}").exists()]
facts["spared_lives"] = state(spared.pid) not in "TZ"
kill_descendants(set(), statuses)
facts["any"] = reap(statuses)
facts["told"] = {top.pid, spared.pid} <= set(statuses)
print(json.dumps(facts))
"""


def test_a_tree_is_stopped_whole_and_then_killed_and_the_spared_are_not():
    done = subprocess.run([sys.executable, "-c", TREE], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "missed": [],
        "stopped": True,
        "spared": True,
        "left": [],
        "spared_lives": True,
        "any": False,
        "told": True,
    }
