"""Whoever knocks at the doors, what stands behind them, and what was answered."""

from interlock.config.settings import load_settings
from interlock.gateway.guard import HostAndOriginPolicy

HOST = (b"host", b"127.0.0.1:8420")
ORIGIN = (b"origin", b"http://127.0.0.1:8420")
COOKIE = (b"cookie", b"interlock=ilb_x")
BEARER = (b"authorization", b"Bearer ilk_x")


def policy(
    monkeypatch, *, port: int = 8420, hashes: tuple[str, ...] = (), **variables: str
) -> HostAndOriginPolicy:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return HostAndOriginPolicy.of(load_settings().gateway, port, hashes)


class Behind:
    """What stands behind the doors: it reads everything and answers, and counts that it was asked."""

    def __init__(self, headers=()) -> None:
        self.asked = 0
        self.body = b""
        self._headers = list(headers)

    async def __call__(self, scope, receive, send) -> None:
        self.asked += 1
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            return
        while (message := await receive())["type"] == "http.request":
            self.body += message["body"]
            if not message.get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        await send({"type": "http.response.body", "body": b"inside"})


class Answer:
    def __init__(self, sent) -> None:
        self.sent = sent
        self.status = sent[0].get("status") if sent else None
        self.headers = [(name.decode(), value.decode()) for name, value in sent[0].get("headers", ())]
        self.body = b"".join(message.get("body", b"") for message in sent[1:])

    def header(self, name: str) -> str:
        (value,) = [value for key, value in self.headers if key == name]
        return value


async def ask(
    doors, *headers, method="GET", path="/", pieces=(b"",), kind="http", extensions=None
) -> Answer:
    scope = {"type": kind, "path": path, "headers": list(headers), "extensions": extensions}
    messages = [{"type": "websocket.connect"}]
    if kind == "http":
        scope["method"] = method
        last = len(pieces) - 1
        messages = [
            {"type": "http.request", "body": body, "more_body": number < last}
            for number, body in enumerate(pieces)
        ]
    waiting, sent = iter(messages), []

    async def receive():
        return next(waiting)

    async def send(message):
        sent.append(message)

    await doors(scope, receive, send)
    return Answer(sent)
