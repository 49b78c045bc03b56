"""Attacks on what is told: the secrets that let people in, and text that wants to be more than text."""

import asyncio
import json

import pytest
from websockets.asyncio.client import connect

from tests.escape.gateway_attacker import Child, get, post
from tests.harness.gateway import GatewayClient, RequestRefused, text_of
from tests.harness.model_answers import called, said
from tests.harness.model_server import KEY, ModelServer


def pieces(secret: str) -> list[bytes]:
    """The end of it would be enough for whoever guesses the rest."""
    return [secret[at : at + 12].encode() for at in range(4, len(secret) - 12, 6)]


async def spoken_to(child: Child, code: str) -> tuple[str, list[bytes]]:
    """All that a browser and a script can do with their secrets: gives the cookie, and what was said."""
    answers = [await post(child.port, "/login", {"code": code}) for _ in range(2)]
    assert [status for status, _ in answers] == [204, 401]
    setting = next(line for line in answers[0][1].split(b"\r\n") if line.lower().startswith(b"set-cookie:"))
    name, _, rest = setting.split(b": ", 1)[1].decode().partition("=")
    cookie = rest.partition(";")[0]
    said = [answers[0][1].replace(setting, b""), answers[1][1]]
    origin = {"Origin": f"http://127.0.0.1:{child.port}"}
    as_script = {"Authorization": f"Bearer {child.token}"}
    as_browser = {"Cookie": f"{name}={cookie}", **origin}
    for given in (as_script, as_browser, {"Authorization": f"Bearer {cookie}"}):
        paths = ("/whoami", "/metrics", "/export/events.jsonl", f"/export/session/{child.token}.jsonl")
        said += [(await get(child.port, path, given))[1] for path in (*paths, f"/{code}", f"/?t={cookie}")]
    for given in (as_script, as_browser):
        client = GatewayClient(
            await connect(f"ws://127.0.0.1:{child.port}/ws?x=y", additional_headers=given)
        )
        session = (await client.ask("session.create", title=f"{code} {cookie}"))["session"]["id"]
        for secret in (code, cookie, child.token):
            await client.talk(session, f"say {secret}")
            for method, name in (("session.get", "session_id"), ("tasks.get", "task_id"), (secret, "x")):
                with pytest.raises(RequestRefused):
                    await client.ask(method, **{name: secret})
        await client.ask("events.tail")
        await client.ask("session.search", query="say")
        said.append(json.dumps(client.frames).encode())
        await client.close()
    said.append((await post(child.port, "/logout", b"", as_browser))[1])
    return cookie, said


async def test_no_secret_is_told_logged_or_stored(tmp_path):
    child = await asyncio.to_thread(Child(tmp_path, LOG_LEVEL="debug").start)
    code = child.link.fragment.partition("=")[2]
    cookie, said_to_them = await spoken_to(child, code)
    revoked = await asyncio.to_thread(child.interlock, "token", "revoke", "attacker")
    assert revoked.returncode == 0
    assert (await asyncio.to_thread(child.stop))[0] == 0
    places = {f"answer {number}": data for number, data in enumerate(said_to_them)}
    places["revoking"] = f"{revoked.stdout}{revoked.stderr}".encode()
    places |= {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any(name.endswith("interlock.db") for name in places)
    for what, secret in {"code": code, "cookie": cookie, "token": child.token}.items():
        found = [place for place, data in places.items() for piece in pieces(secret) if piece in data]
        assert not found, what


HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)">\u2028&lt;\'"'


async def test_text_that_would_be_a_page_stays_text(open_harness):
    """In titles, messages, answers, results, questions and names of files: as JSON, unchanged."""
    name = HOSTILE.replace("/", "_")
    question = {"type": "confirmation", "message": HOSTILE}
    calls = [("list_files", {"path": "."}), ("read_file", {"path": name}), ("ask_user", question)]
    script = [called(call, ids=f"call{number}") for number, call in enumerate(calls)]
    async with ModelServer([*script, said(HOSTILE, size=3)]) as model:
        environment = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": model.base_url, "OPENAI_MODEL": "m"}
        harness = await open_harness(MODEL="openai", SESSION_OPEN_MODES="coding", **environment)
        (harness.root / name).write_text(HOSTILE)
        client = await harness.connect()
        session = (await client.ask("session.create", title=HOSTILE, mode="coding"))["session"]
        assert session["title"].startswith("</script><script>")
        await client.send("chat.send", session_id=session["id"], content=HOSTILE)
        asked = await client.until(lambda frame: frame["type"] == "ask_user")
        assert asked["data"]["question"]["message"] == HOSTILE
        await client.until(lambda frame: frame["data"].get("kind") == "task.waiting")
        await client.ask(
            "ask_user.answer", question_id=asked["data"]["question_id"], answer={"confirmed": True}
        )
        await client.until_end(asked["data"]["task_id"])
        assert text_of(client.frames) == HOSTILE
        listed, read, _ = [frame["data"]["result"] for frame in client.of("tool_result")]
        assert "<script>alert(1)<_script><img src=x onerror=" in listed["stdout"]
        assert HOSTILE in read["stdout"]
        given = {"Authorization": f"Bearer {await harness.token('script')}"}
        _, export = await get(harness.port, f"/export/session/{session['id']}.jsonl", given)
    headers, _, _ = export.partition(b"\r\n\r\n")
    assert b"nosniff" in headers
    assert b"content-disposition: attachment" in headers.lower()
    assert b"text/html" not in headers
