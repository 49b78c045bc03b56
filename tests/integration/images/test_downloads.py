"""An endpoint that answers with an address: where that may lead, and where not."""

import asyncio
import socket
import ssl
import subprocess

import pytest
from aiohttp import web
from yarl import URL

from interlock.policy.policy_fields import ImagePolicy, ToolPolicy
from interlock.tools import http
from tests.harness.image_server import KEY, ImageServer
from tests.harness.sample_images import png


def serve(endpoint, path: str = "/files/1.png", **options) -> str:
    """Put an image there, and return its address."""

    async def answer(_request):
        return web.Response(**({"body": png()} | options))

    endpoint.files[path] = answer
    return f"{endpoint.origin}{path}"


def point_to(images, address: str) -> None:
    images.endpoint.reply({"data": [{"url": address}]})


async def test_an_image_at_the_endpoint_itself_is_fetched_with_the_key(images):
    point_to(images, serve(images.endpoint) + "?sig=a%2Fb%2Bc")
    await images.make()
    assert images.files() == {"picture.png": png()}
    (request,) = images.endpoint.fetched
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.raw_path == "/files/1.png?sig=a%2Fb%2Bc"


@pytest.mark.parametrize("status", [301, 302, 307, 404, 403, 500, 204])
async def test_anything_but_the_image_is_told(images, status):
    elsewhere = serve(images.endpoint, "/files/2.png")
    point_to(images, serve(images.endpoint, status=status, headers={"Location": elsewhere}, body=b""))
    code, message, step = await images.failure()
    assert code == "EXECUTION_ERROR"
    assert f"did not return it (status {status})" in message
    assert "charged" in step
    assert len(images.endpoint.fetched) == 1


async def test_a_page_instead_of_an_image_is_not_saved(images):
    point_to(images, serve(images.endpoint, body=b"<html>log in first</html>"))
    assert "not PNG" in (await images.failure())[1]


async def test_a_download_is_bounded(images):
    images.bench.policy = ToolPolicy(image=ImagePolicy(max_bytes=1000))
    point_to(images, serve(images.endpoint, body=png(padding=1000)))
    assert (await images.failure())[0] == "LIMIT_EXCEEDED"


async def test_a_download_without_end_is_left_at_the_limit(images):
    images.bench.policy = ToolPolicy(image=ImagePolicy(max_bytes=1000))

    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"\0" * 65536)

    images.endpoint.files["/endless"] = answer
    point_to(images, f"{images.endpoint.origin}/endless")
    assert (await images.failure())[0] == "LIMIT_EXCEEDED"
    await asyncio.wait_for(images.endpoint.hung_up.wait(), 5)


async def test_a_download_that_hangs_ends_with_the_time(images):
    images.use(seconds=0.3)

    async def answer(_request):
        await asyncio.Event().wait()

    images.endpoint.files["/hangs"] = answer
    point_to(images, f"{images.endpoint.origin}/hangs")
    assert (await images.failure())[0] == "TIMEOUT"
    await asyncio.wait_for(images.endpoint.hung_up.wait(), 5)


@pytest.fixture
async def inner():
    """A service inside that is none of an endpoint's business: it must never hear of it."""
    reached = []

    async def serve(_reader, writer):
        reached.append(1)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    assert reached == []


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "https://127.0.0.1:{port}/",
        "https://localhost:{port}/",
        "https://localhost.:{port}/",
        "https://LOCALHOST:{port}/",
        "https://2130706433:{port}/",
        "https://127.1:{port}/",
        "https://0177.0.0.1:{port}/",
        "https://0x7f.0.0.1:{port}/",
        "https://0x7f000001:{port}/",
        "https://0:{port}/",
        "https://0.0.0.0:{port}/",
        "https://[::1]:{port}/",
        "https://[::]:{port}/",
        "https://[::ffff:127.0.0.1]:{port}/",
        "https://[64:ff9b::7f00:1]:{port}/",
        "https://[2002:7f00:1::]:{port}/",
        "https://169.254.169.254/latest/meta-data/",
        "https://10.0.0.1/",
        "https://[fe80::1%25lo]:{port}/",
        "https://[fd00::1]/",
        "https://224.0.0.1/",
        "https://user@127.0.0.1:{port}/",
        "http://example.com/picture.png",
        "https://example.com\\@127.0.0.1:{port}/",
        "https://127.0.0.1:{port}#@example.com/",
        "file:///etc/passwd",
        "ftp://127.0.0.1:{port}/x",
        "//127.0.0.1:{port}/x",
        "/files/1.png",
        "files/1.png",
        "https://",
        "https:///x",
        "https://[::1/",
        "https://a b/",
        "https://exa\nmple.com/",
        "https://example.com:99999/",
        "https://żółw.example/",
        "gopher://127.0.0.1:{port}/_x",
        "https://" + "a" * 9000,
    ],
)
async def test_an_address_that_leads_inside_is_not_followed(images, inner, address):
    point_to(images, address.format(port=inner))
    code, message, step = await images.failure()
    assert code == "EXECUTION_ERROR"
    # A name may also be unknown here, which is as good.
    assert any(
        text in message for text in ("could reach into this network", "is not valid", "cannot be resolved")
    )
    assert "charged" in step
    assert images.endpoint.fetched == []


async def test_the_endpoints_own_host_on_another_port_is_somebody_else(images):
    other = await ImageServer().start()
    try:
        point_to(images, serve(other))
        assert "plain http" in (await images.failure())[1]
        assert other.fetched == []
    finally:
        await other.stop()


async def test_a_name_that_also_leads_inside_is_refused_whole(images, inner, monkeypatch):
    """One public address among its addresses does not make the others reachable."""
    monkeypatch.setattr(http, "ThreadedResolver", lambda: Names(["93.184.215.14", "127.0.0.1"]))
    point_to(images, f"https://images.example:{inner}/x.png")
    assert "from a non-public address (images.example)" in (await images.failure())[1]


class Names:
    """A resolver that knows one answer, and how often it was asked."""

    def __init__(self, addresses: list[str]) -> None:
        self.addresses, self.asked = addresses, []

    async def resolve(self, host, port=0, family=socket.AF_INET):
        self.asked.append(host)
        flags = socket.AI_NUMERICHOST
        return [
            {
                "hostname": host,
                "host": each,
                "port": port,
                "family": socket.AF_INET,
                "proto": 6,
                "flags": flags,
            }
            for each in self.addresses
        ]

    async def close(self):
        pass


@pytest.fixture
async def elsewhere(tmp_path, monkeypatch):
    """A server on the internet with a certificate for images.example, as far as this process can tell."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=images.example -addext subjectAltName=DNS:images.example"
    )
    subprocess.run([*command.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await ImageServer().start(context)
    server.names = Names(["127.0.0.1"])
    monkeypatch.setattr(http, "ThreadedResolver", lambda: server.names)
    monkeypatch.setattr(http, "is_public", lambda address: address == "127.0.0.1")
    server.certificate = certificate
    yield server
    await server.stop()


@pytest.fixture
def trusting(elsewhere, monkeypatch):
    real = http.aiohttp.TCPConnector
    context = ssl.create_default_context(cafile=elsewhere.certificate)
    monkeypatch.setattr(http.aiohttp, "TCPConnector", lambda **options: real(ssl=context, **options))
    return elsewhere


async def test_a_public_server_is_asked_by_https_without_the_key(images, trusting):
    serve(trusting)
    point_to(images, f"https://images.example:{trusting.port}/files/1.png")
    await images.make()
    assert images.files() == {"picture.png": png()}
    (request,) = trusting.fetched
    assert "Authorization" not in request.headers
    assert "Cookie" not in request.headers
    # Judged and connected to in one look-up: a name cannot change in between.
    assert trusting.names.asked == ["images.example"]


async def test_a_public_server_that_redirects_inside_is_not_followed(images, trusting, inner):
    serve(trusting, status=302, headers={"Location": f"http://127.0.0.1:{inner}/"}, body=b"")
    point_to(images, f"https://images.example:{trusting.port}/files/1.png")
    assert "did not return it (status 302)" in (await images.failure())[1]


async def test_a_certificate_that_nobody_vouches_for_is_refused(images, elsewhere):
    serve(elsewhere)
    point_to(images, f"https://images.example:{elsewhere.port}/files/1.png")
    code, message, step = await images.failure()
    assert code == "EXECUTION_ERROR"
    assert "images.example has a certificate that is not trusted" in message
    assert "charged" in step
    assert elsewhere.fetched == []


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:{port}/", "https://127.0.0.2:{port}/", "ftp://x/", "", "http://[::1/"]
)
async def test_a_redirect_is_checked_like_the_first_url(trusting, inner, target):
    serve(trusting, status=302, headers={"Location": target.format(port=inner)}, body=b"")
    first = URL(f"https://images.example:{trusting.port}/files/1.png")
    with pytest.raises(http.HttpError):
        await http.request(
            "GET",
            first,
            headers={},
            accepted={200},
            max_bytes=10_000,
            public_only=True,
            max_redirects=3,
        )
    assert len(trusting.fetched) == 1
    assert trusting.names.asked == ["images.example"]


async def test_redirects_are_followed_as_far_as_wanted_and_tell_no_other_origin_the_key(images):
    other = await ImageServer().start()
    try:
        last = serve(other, "/last", body=b"found")
        second = serve(images.endpoint, "/2", status=302, headers={"Location": last}, body=b"")
        serve(images.endpoint, "/1", status=302, headers={"Location": "/2"}, body=b"")
        first = URL(second).with_path("/1")

        async def fetched(max_redirects: int) -> http.HttpResponse:
            return await http.request(
                "GET",
                first,
                headers={"Authorization": KEY},
                accepted={200},
                max_bytes=100,
                max_redirects=max_redirects,
            )

        assert (await fetched(0)).status == (await fetched(1)).status == 302
        response = await fetched(2)
        assert (response.status, response.body) == (200, b"found")
        assert {request.headers.get("Authorization") for request in images.endpoint.fetched} == {KEY}
        assert [request.headers.get("Authorization") for request in other.fetched] == [None]
    finally:
        await other.stop()
