"""`interlock tool call --jsonl`: one answer for every line, in order, whatever stands on it."""

import os
import subprocess
import sys

import orjson
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.odd import ANYTHING, RAWS, spoiled, torn, written

CALL = {"id": 1, "name": "current_time", "arguments": {"timezone": "Europe/Berlin"}, "timeout_seconds": 5}
READ = {"id": "b", "name": "read_file", "arguments": '{"path": "a.txt"}'}
LINES = st.one_of(
    st.sampled_from([CALL, READ]).flatmap(spoiled).map(written),
    st.sampled_from([CALL, READ]).map(written).flatmap(torn),
    ANYTHING.map(written),
    st.binary(max_size=30),
).map(lambda line: line.replace(b"\n", b" "))
# Each place of a call with each of the worst.
WORST = [{**CALL, key: raw} for key in CALL for raw in RAWS]
WORST += [{**CALL, "timeout_seconds": seconds} for seconds in (0, -1, 1e-9, 1e308, 2**63, True, "1")]
WORST += [{**CALL, "arguments": {"timezone": raw}} for raw in RAWS]
# Many lines for each process: it is starting that takes long.
FEW = settings(
    max_examples=1 if settings.default.max_examples <= 100 else 60,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


def answers(folder, lines: list[bytes]) -> list[dict]:
    root = folder / "root"
    root.mkdir(exist_ok=True)
    environment = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "INTERLOCK_STATE_DIR": str(folder / "state"),
        "WORKSPACE_DIR": str(folder / "workspace"),
    }
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "interlock",
            "tool",
            "call",
            "--jsonl",
            "--mode",
            "chat",
            "--root",
            str(root),
        ],
        input=b"\n".join(lines) + b"\n",
        capture_output=True,
        env=environment,
        timeout=120,
    )
    assert b"Traceback" not in done.stderr, done.stderr[-3000:]
    assert done.returncode == 0, done.stderr[-3000:]
    return [orjson.loads(line) for line in done.stdout.splitlines()]


def must_answer(folder, lines: list[bytes]) -> None:
    # A last one by which it is seen that the process is still well.
    told = answers(folder, [*lines, written({**CALL, "id": "the last"})])
    assert len(told) == sum(bool(line.strip()) for line in lines) + 1
    assert all(set(each) == {"id", "result"} for each in told)
    assert told[-1]["id"] == "the last"
    assert told[-1]["result"]["ok"]


def test_the_worst_lines_are_answered(tmp_path):
    must_answer(tmp_path, [written(call) for call in WORST])


@FEW
@given(lines=st.lists(LINES, min_size=20, max_size=60))
def test_any_lines_are_answered(tmp_path_factory, lines):
    must_answer(tmp_path_factory.mktemp("lines"), lines)
