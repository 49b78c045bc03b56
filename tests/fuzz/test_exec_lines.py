"""`interlock exec --json`, with a server that sends anything: JSON lines, an end, and its exit code."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.odd import WORDS, spoiled, torn, written
from tests.fuzz.test_model_answers import streams
from tests.harness.model_answers import DONE, call_chunks, call_delta, event, text_chunks

# Several turns, so that calls are run, refused and answered in between; then a plain end.
NAMES = st.sampled_from(["read_file", "list_files", "write_file", "bash", "ask_user", "nothing", *WORDS])
ARGUMENTS = st.one_of(
    st.sampled_from([{"path": "a.txt"}, {"path": "b.txt", "content": "x"}, {"command": "ls"}])
    .flatmap(spoiled)
    .map(lambda given: written(given).decode("utf-8", "replace")),
    st.sampled_from(WORDS),
)


@st.composite
def calling(draw: st.DrawFn) -> bytes:
    calls = [
        call_delta(number, name=draw(NAMES), arguments=draw(ARGUMENTS), call_id=f"call_{number}")
        for number in range(draw(st.integers(1, 4)))
    ]
    whole = b"".join(event(each) for each in call_chunks(*calls)) + DONE
    return draw(torn(whole)) if draw(st.integers(0, 3)) == 0 else whole


END = b"".join(map(event, text_chunks(["the ", "end"]))) + DONE
FEW = settings(
    max_examples=6 if settings.default.max_examples <= 100 else 300,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
CODES = {0, 1, 3, 4, 5}


@contextmanager
def answering(answers: list[bytes]) -> Iterator[str]:
    """A server that gives them in turn, over real connections, and then an end."""
    left = iter(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = next(left, END)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def executed(folder: Path, answers: list[bytes]) -> tuple[int, list[dict]]:
    root = folder / "root"
    root.mkdir()
    (root / "a.txt").write_text("hello\n")
    with answering(answers) as address:
        environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "INTERLOCK_STATE_DIR": str(folder / "state"),
            "WORKSPACE_DIR": str(folder / "workspace"),
            "MODEL": "openai:fuzz",
            "OPENAI_BASE_URL": address,
            "OPENAI_API_KEY": "none",
            "CONTROL_RETRY_SECONDS": "0.01",
            "CONTROL_MAX_TURNS": "8",
        }
        words = ["exec", "go on", "--json", "--mode", "coding", "--root", str(root)]
        done = subprocess.run(
            [sys.executable, "-m", "interlock", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            cwd=folder,
            timeout=120,
        )
    assert b"Traceback" not in done.stderr, done.stderr[-3000:]
    return done.returncode, [orjson.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.full
@FEW
@given(answers=st.lists(st.one_of(streams(), calling()), min_size=1, max_size=6))
def test_whatever_a_model_sends_there_are_lines_and_an_end(tmp_path_factory, answers):
    code, lines = executed(tmp_path_factory.mktemp("exec"), answers)
    assert code in CODES
    assert lines[0]["type"] == "session"
    assert (lines[-1]["type"], lines[-1]["exit_code"]) == ("task", code)
    assert lines[-1]["status"] in {"done", "failed"}
    # Each call that is told of is told the end of, once; but for what a limit cut off.
    begun = [line["call_id"] for line in lines if line["type"] == "tool_call"]
    ended = [line["call_id"] for line in lines if line["type"] in {"tool_result", "tool_denied"}]
    assert len(set(ended)) == len(ended)
    assert set(ended) <= set(begun)
    if code == 0:
        assert set(ended) == set(begun)
