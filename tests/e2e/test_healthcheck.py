"""The image's health check, against a gateway that is there and one that is not."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

CHECK = Path(__file__).parents[2] / "deploy" / "docker" / "healthcheck.py"


def checked(port):
    environment = {
        "PATH": os.environ["PATH"],
        "GATEWAY_PORT": str(port),
        "http_proxy": "http://127.0.0.1:1",
    }
    return subprocess.run([sys.executable, CHECK], env=environment, capture_output=True, text=True)


def test_it_tells_whether_the_gateway_answers(interlock):
    interlock.variables["WORKSPACE_DIR"] = str(interlock.home / "workspace")
    process = interlock.start("serve", "--no-worker", "--port", "0", stdout=subprocess.PIPE, text=True)
    port = int(process.stdout.readline().split("/#")[0].rpartition(":")[2])
    assert checked(port).returncode == 0
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    process.stdout.close()
    gone = checked(port)
    assert gone.returncode == 1
    assert f"127.0.0.1:{port}/healthz" in gone.stderr


def test_something_else_on_that_port_is_not_healthy():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        assert checked(other.getsockname()[1]).returncode == 1
