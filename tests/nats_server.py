"""A real NATS server of a test's own: with credentials, on a port that it keeps when it is restarted."""

import json
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from urllib.parse import quote

PROGRAM = Path(sys.executable).parent / "nats-server"


class NatsServer:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.user, self.password = "interlock", f"{secrets.token_hex(8)}/@:%"
        self._port, self._monitor = _free_port(), _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._config = folder / "nats.conf"
        folder.mkdir(parents=True, exist_ok=True)
        self._config.write_text(
            f"""
            host: 127.0.0.1
            port: {self._port}
            http: "127.0.0.1:{self._monitor}"
            jetstream {{ store_dir: "{folder / "store"}" }}
            authorization {{ user: {self.user}, password: "{self.password}" }}
            """
        )

    @property
    def url(self) -> str:
        """With a password that has to be encoded in it."""
        return f"nats://{self.user}:{quote(self.password, safe='')}@127.0.0.1:{self._port}"

    @property
    def address(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    def start(self) -> "NatsServer":
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(PROGRAM), "-c", str(self._config)], stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return self
            time.sleep(0.02)
        raise TimeoutError((self._folder / "log").read_text())

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def clients(self) -> int:
        """How many are connected."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._monitor}/connz") as answer:
            return int(json.load(answer)["num_connections"])

    def stop(self, number: int = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def wipe(self) -> None:
        """What it has stored is gone."""
        assert self._process is None
        shutil.rmtree(self._folder / "store", ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
