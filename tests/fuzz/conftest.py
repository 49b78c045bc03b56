"""One `interlock serve` for all that is sent to it, as a process of its own."""

import json
from collections.abc import Iterator

import pytest

from tests.harness.server_process import ServerProcess


class Target:
    """A running server with a token for it. Its log must stay without a traceback."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.origin = server.origin
        self.token = json.loads(server.interlock("token", "add", "fuzz", "--json"))["secret"]

    @property
    def socket_url(self) -> str:
        return self.origin.replace("http", "ws", 1) + "/ws"

    def must_be_well(self) -> None:
        assert self.server.is_running, self.server.complaints()[-3000:]
        assert "Traceback" not in self.server.complaints(), self.server.complaints()[-5000:]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    home = tmp_path_factory.mktemp("fuzzed")
    server = ServerProcess(
        home, "chat,plan,coding", GATEWAY_REQUESTS_PER_SECOND="100000", SESSION_OPEN_MODES="chat"
    ).start()
    try:
        yield Target(server)
    finally:
        server.stop()
