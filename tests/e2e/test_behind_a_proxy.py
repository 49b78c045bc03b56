"""The proxies of docs/deploy.md, as they stand there, before two real gateways."""

import http.client
import json
import re
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

NAME = "interlock.example.org"
ADDRESSES = ("127.0.0.1", "127.0.0.2")
TEXT = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text()


def snippet(language):
    [found] = re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)
    return found


def free_port(address="127.0.0.1"):
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Site:
    """Two gateways on one store, on the same port of two addresses, and a proxy before them."""

    def __init__(self, shell):
        self.shell = shell
        self.port, self.public = free_port("127.0.0.2"), free_port()
        self.processes = []
        shell.variables |= {
            "WORKSPACE_DIR": str(shell.home / "workspace"),
            "GATEWAY_PORT": str(self.port),
            # As docs/deploy.md has them.
            **dict(re.findall(r"^(GATEWAY_ALLOWED_[A-Z]+)=(.+)$", TEXT, flags=re.MULTILINE)),
        }
        self.certificate, self.key = shell.home / "cert.pem", shell.home / "key.pem"
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
                *("-nodes", "-days", "2", "-batch", "-subj", f"/CN={NAME}"),
                *("-addext", f"subjectAltName=DNS:{NAME}"),
                *("-keyout", self.key, "-out", self.certificate),
            ],
            check=True,
            capture_output=True,
        )
        self.trusting = ssl.create_default_context(cafile=self.certificate)

    def start(self, *command):
        self.processes.append(
            subprocess.Popen(command, env=self.shell.environment, stdout=subprocess.PIPE, text=True)
        )
        return self.processes[-1]

    def open_gateways(self):
        for address in ADDRESSES:
            words = ("serve", "--no-worker", "--host", address)
            self.start(sys.executable, "-m", "interlock", *words).stdout.readline()

    def put_before(self, proxy):
        given = {
            "8420": str(self.port),
            "/etc/ssl/interlock.pem": str(self.certificate),
            "/etc/ssl/interlock.key": str(self.key),
            "listen 443": f"listen 127.0.0.1:{self.public}",
        }
        text = snippet("nginx" if proxy == "nginx" else "caddyfile")
        for old, new in given.items():
            text = text.replace(old, new)
        home = self.shell.home
        if proxy == "nginx":
            around = f"pid {home}/nginx.pid; error_log {home}/nginx.log; daemon off;\nevents {{}}\n"
            text = f"{around}http {{ access_log off;\n{text}}}\n"
            (home / "proxy").write_text(text)
            self.start("nginx", "-p", str(home), "-c", str(home / "proxy"))
        else:
            own = f"https://{NAME}:{self.public} {{\n    tls {self.certificate} {self.key}\n"
            text = "{\n    admin off\n    auto_https disable_redirects\n}\n" + text.replace(
                f"{NAME} {{\n", own
            )
            (home / "proxy").write_text(text)
            self.start("caddy", "run", "--adapter", "caddyfile", "--config", str(home / "proxy"))
        deadline = time.monotonic() + 30
        while not answers(self.public) and time.monotonic() < deadline:
            time.sleep(0.05)

    def socket(self, *, origin=f"https://{NAME}", headers):
        return connect(
            f"wss://{NAME}/ws",
            sock=socket.create_connection(("127.0.0.1", self.public)),
            ssl=self.trusting,
            server_hostname=NAME,
            origin=origin,
            additional_headers=headers,
        )

    def ask(self, path, *, body=None, cookie=""):
        """The status, and what the browser is to keep."""
        headers = {"Host": NAME, "Origin": f"https://{NAME}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection(NAME)
        plain = socket.create_connection(("127.0.0.1", self.public))
        connection.sock = self.trusting.wrap_socket(plain, server_hostname=NAME)
        try:
            method = "GET" if body is None else "POST"
            connection.request(method, path, body, headers | ({"Cookie": cookie} if cookie else {}))
            answer = connection.getresponse()
            return answer.status, answer.headers["Set-Cookie"] or ""
        finally:
            connection.close()

    def end(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(60)
            process.stdout.close()


@pytest.fixture(params=["nginx", "caddy"])
def site(request, interlock):
    if not shutil.which(request.param) or not shutil.which("openssl"):
        pytest.skip(f"{request.param} is not installed")
    site = Site(interlock)
    try:
        site.open_gateways()
        site.put_before(request.param)
        yield site
    finally:
        site.end()


@pytest.mark.full
def test_people_and_scripts_come_in_through_it(site):
    token = site.shell("token", "add", "script").stdout.strip()
    told = set()
    for number in range(4):
        with site.socket(headers={"Authorization": f"Bearer {token}"}) as opened:
            opened.send(
                json.dumps({"type": "request", "id": str(number), "method": "session.list", "params": {}})
            )
            while (frame := json.loads(opened.recv(timeout=20))).get("id") != str(number):
                pass
            told.add(frame["type"])
    assert told == {"response"}

    # A browser that one gateway let in is known to the other.
    link = site.shell("token", "link").stdout.strip()
    code = link.partition("#code=")[2]
    status, cookie = site.ask("/login", body=json.dumps({"code": code}))
    assert (status, "Secure" in cookie) == (204, True)
    kept = cookie.partition(";")[0]
    assert [site.ask("/metrics", cookie=kept)[0] for _ in range(4)] == [200] * 4


@pytest.mark.full
def test_another_site_stays_out(site):
    token = site.shell("token", "add", "script").stdout.strip()
    headers = {"Authorization": f"Bearer {token}"}
    with (
        pytest.raises(InvalidStatus) as refused,
        site.socket(headers=headers, origin="https://evil.example.org"),
    ):
        pass
    assert refused.value.response.status_code == 403
    assert site.ask("/metrics", cookie=f"interlock_{site.port}={secrets.token_hex(16)}")[0] == 401
