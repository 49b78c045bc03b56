"""Secrets planted through every tool are found nowhere but in the files they were planted in."""

import base64
import json
import re
import shlex
import shutil
from urllib.parse import quote

from interlock.gates.call_events import MAX_RECORDED_ARGUMENT_CHARS
from interlock.tools.media.image_response import MAX_REASON_CHARS
from tests.canary.canaries import Canary
from tests.harness.canary import CanaryHarness

# Where messages cut what they repeat of a caller's text, or once did.
CUTS = (20, 40, 64, 200, 300, 400, 1000)


def across(cut: int, canary: Canary) -> str:
    """A text in whose secret it would be cut."""
    return f"{'z' * max(1, cut - len(canary.secret) // 2)} {canary.text}"


def lines_with(canary: Canary) -> str:
    return f"first line\nbefore\n{canary.text}\nbehind\nlast line\n"


async def test_what_is_read(harness: CanaryHarness):
    """Whole, in lines, and in pages that begin and end inside each secret."""
    harness.write("all.txt", harness.canaries.text)
    harness.write("wide.txt", harness.canaries.text.encode("utf-16"))
    for path in ("all.txt", "wide.txt"):
        await harness.pages("read_file", path=path)
        await harness.pages("read_file", path=path, limit_bytes=700)
    for number, canary in enumerate(harness.canaries):
        text, path = lines_with(canary), f"{number}.txt"
        harness.write(path, text)
        middle = len(text[: text.index(canary.text)].encode()) + len(canary.text.encode()) // 2
        await harness.ok("read_file", path=path, offset=middle)
        await harness.ok("read_file", path=path, offset=middle + 5, limit_bytes=30)
        await harness.ok("read_file", path=path, limit_bytes=middle)
        for line in range(3, text.count("\n"), 4):
            await harness.ok("read_file", path=path, start_line=line, line_count=1)
    assert await harness.is_clean()


async def test_what_is_searched(harness: CanaryHarness):
    """By a word beside each secret, by a part of it, and in lines that are cut around the match."""
    harness.write("all.txt", harness.canaries.text)
    harness.write("wide.txt", harness.canaries.text.encode("utf-16"))
    for number, canary in enumerate(harness.canaries):
        long = f"{'x ' * 900}{canary.text} needle{number} {'y ' * 900}\n"
        harness.write(f"long/{number}.txt", long if canary.is_one_line else lines_with(canary))
        # Seven of its characters: whoever asks for more of it has it already.
        part = canary.secret[len(canary.secret) // 2 :][:7].partition("\n")[0]
        await harness.pages("search_files", pattern=re.escape(part), limit=3)
        await harness.ok("search_files", pattern=f"needle{number}")
    for pattern in ("ordinary", "(?i)password|token", "BEGIN|END", "^[A-Za-z0-9+/=]{40,}$"):
        await harness.pages("search_files", pattern=pattern)
    assert await harness.is_clean()


def paths_with(secret: str) -> list[str]:
    """A secret that has slashes, alone and within a path, and as a path is put right."""
    resolved = re.sub("/+", "/", secret)
    shapes = [secret, f"in/{secret}", f"{secret}/x.txt", f"./{secret}", f"/{secret}", f"../{secret}"]
    return [*shapes, f"{secret}/..", f"in/../{secret}.txt", resolved, f"{secret}*", f"{secret}\n"]


async def test_secrets_with_slashes_as_paths(harness: CanaryHarness):
    """No part of one is left in a message, though a path is split at its slashes."""
    slashed = [canary.secret for canary in harness.canaries.known if "/" in canary.secret]
    assert slashed
    paths = [path for secret in slashed for path in paths_with(secret)]
    for path in paths:
        await every_file_tool(harness, path)
    # Some of what it names is there: a file where a directory should be, and what has nearly its name.
    for secret in slashed:
        first, *_, last = secret.split("/")
        shutil.rmtree(harness.root / first, ignore_errors=True)
        harness.write(first, "a file")
        await every_file_tool(harness, secret)
        (harness.root / first).unlink()
        for path in (f"{secret}.d/{last}", f"{secret}.d/{last}x", f"{secret}.d", f"{secret}.e"):
            harness.write(f"{secret}.d/{last}", "nothing in it")
            await every_file_tool(harness, path)
    assert await harness.is_clean()


async def every_file_tool(harness: CanaryHarness, path: str) -> None:
    harness.write("given.txt", "x")
    await harness.call("read_file", path=path)
    await harness.call("list_files", path=path)
    await harness.call("get_project_structure", path=path)
    await harness.call("find_files", name_pattern=path)
    await harness.call("find_files", name_pattern="*", path=path)
    await harness.call("search_files", pattern="nothing", path=path)
    await harness.call("search_files", pattern="nothing", glob=path)
    await harness.call("edit_file", path=path, find="nothing", replace="something")
    await harness.call("move_file", source=path, destination="elsewhere.txt")
    await harness.call("move_file", source="given.txt", destination=path)
    await harness.call("delete_file", path=path)
    await harness.call("write_file", path=path, content="x")
    await harness.call("generate_image", prompt="a cat", path=path)
    quoted = shlex.quote(path)
    await harness.call("bash", cmd=f"cd {quoted}")
    await harness.call("bash", cmd="pwd", workdir=path)
    await harness.call(
        "bash", cmd=f"echo x > {quoted}; cat {quoted}; rm -r {quoted}; git -C {quoted} status"
    )
    await harness.call("bash_readonly", cmd=f"ls {quoted}")


async def test_names_of_files(harness: CanaryHarness):
    named = [canary for canary in harness.canaries.alone if "/" not in canary.secret]
    paths = [f"names/of {canary.secret} here.txt" for canary in named]
    for path in paths:
        harness.write(path, "nothing in it")
    await harness.pages("list_files", recursive=True)
    await harness.pages("list_files", path="names", limit=2)
    await harness.pages("find_files", name_pattern="*.txt", limit=3)
    await harness.call("get_project_structure")
    await harness.pages("search_files", pattern="nothing in it", limit=4)
    for path in paths:
        await harness.ok("read_file", path=path)
        # A wrong name is answered with the nearest right one.
        await harness.call("read_file", path=path.removesuffix("t"))
        await harness.call("write_file", path=path, content="now there is")
        await harness.call("edit_file", path=path, find="nothing", replace="something")
        await harness.call("move_file", source=path, destination=f"{path}.old")
        await harness.call("delete_file", path=f"{path}.old")
    assert (await harness.runtime.undo.revert(harness.session_id, who="canary")).outcomes
    assert await harness.is_clean()


async def test_what_is_written(harness: CanaryHarness):
    """Arguments are carried out as they were given, and stored without secrets."""
    await harness.ok("write_file", path="made.txt", content=harness.canaries.text)
    assert (harness.root / "made.txt").read_text() == harness.canaries.text
    await harness.call("write_file", path="made.txt", content=harness.canaries.text)
    for number, canary in enumerate(harness.canaries):
        path, text = f"{number}.txt", canary.text
        await harness.ok("write_file", path=path, content=f"begin {text} end\n")
        await harness.ok("write_file", path=path, content=f"more {text}\n", mode="append")
        await harness.ok("read_file", path=path)
        await harness.ok("edit_file", path=path, find=f"begin {text}", replace=f"now {text} x")
        await harness.call("edit_file", path=path, find=f"absent {text}", replace="y")
        assert f"now {text} x" in (harness.root / path).read_text()
    for number, canary in enumerate(harness.canaries.known):
        # The log keeps the beginning of a long argument.
        long = across(MAX_RECORDED_ARGUMENT_CHARS, canary)
        await harness.ok("write_file", path=f"long-{number}.txt", content=long)
    assert await harness.is_clean()


async def test_what_commands_say(harness: CanaryHarness):
    harness.write("all.txt", harness.canaries.text)
    for tool in ("bash", "bash_readonly"):
        await harness.call(tool, cmd="env; cat all.txt")
        await harness.call(tool, cmd="cat all.txt >&2; exit 7")
        await harness.call(tool, cmd="cat all.txt; kill -9 $$")
        pages = await harness.pages(tool, cmd="for i in 1 2 3 4 5 6 7 8 9 10; do cat all.txt; done")
        assert len(pages) > 1
    for canary in harness.canaries:
        await harness.call("bash", cmd=f"cat <<'END'; false\n{canary.text}\nEND")
    for canary in harness.canaries.alone:
        word = shlex.quote(canary.secret)
        await harness.call("bash", cmd=f"{word} --help; ls {word}")
        await harness.call("bash", cmd=f"rm -rf / {word}")
        await harness.call("bash", cmd="true", workdir=f"no/{canary.secret}")
    assert await harness.is_clean()


async def test_what_the_process_holds_is_known_in_every_encoding(harness: CanaryHarness):
    for canary in harness.canaries.known:
        raw = canary.secret.encode()
        harness.write("secret", raw)
        await harness.call("bash", cmd="base64 -w0 secret; (printf u:; cat secret) | base64")
        forms = [
            *(base64.b64encode(b"u" * offset + raw + b"tail").decode() for offset in range(3)),
            *(base64.urlsafe_b64encode(b"u" * offset + raw + b"tail").decode() for offset in range(3)),
            raw.hex(),
            raw.hex().upper(),
            quote(canary.secret, safe=""),
            json.dumps(canary.secret),
            json.dumps(json.dumps(canary.secret)),
            repr(canary.secret),
            repr(raw),
        ]
        harness.write("forms.txt", "\n".join(forms))
        await harness.ok("read_file", path="forms.txt")
        await harness.call("bash", cmd="cat forms.txt")
    assert await harness.is_clean()


async def test_what_a_command_says_while_it_runs(harness: CanaryHarness):
    """Line by line, where the lines of a block tell nothing by themselves, and in endless lines."""
    harness.write("all.txt", harness.canaries.text)
    await harness.call("bash", cmd='while IFS= read -r line; do echo "$line"; sleep 0.001; done < all.txt')
    assert harness.has_heard("ordinary words between")
    for canary in harness.canaries.known:
        harness.write("secret", canary.secret)
        # So much in one line that its beginning is no longer in mind when it ends.
        for length in (16_350, 16_384 - len(canary.secret) // 2, 16_384, 16_390):
            long = f"cat secret; head -c {length} /dev/zero | tr '\\0' x"
            await harness.call("bash", cmd=f"{long}; echo; sleep 0.01; echo; sleep 0.01; echo")
    assert await harness.is_clean()


async def test_memory(harness: CanaryHarness):
    """What a person wrote down stays as it is; the index, and what a tool adds, have no secret."""
    harness.note("own.md", f"# Mine\n\n{harness.canaries.text}\n")
    for number, canary in enumerate(harness.canaries):
        harness.note(f"own-{number}.md", f"# Note {number}\n\nzebra{number} {canary.text}\n")
        content = f"The zebra{number} is known by {canary.text}"
        await harness.ok("memory_append", content=content, title=f"About {number}")
        await harness.ok("memory_search", query=f"zebra{number}", limit=50)
    for canary in harness.canaries.alone:
        await harness.ok("memory_append", content="a title", title=f"of {canary.secret}")
        await harness.ok("memory_search", query=canary.secret)
        if "/" not in canary.secret:
            text = f"# {canary.secret}\n\ngiraffe\n\n## {canary.secret}\n\nx\n"
            harness.note(f"of {canary.secret} here.md", text)
    await harness.ok("memory_search", query="giraffe ordinary", limit=50)
    assert await harness.is_clean()


async def test_questions_and_answers(harness: CanaryHarness):
    desk = harness.runtime.questions
    for canary in harness.canaries.alone:
        secret = canary.secret
        fields = [
            {"name": "comment", "label": secret, "default": secret},
            {"name": "password", "description": f"not {secret}"},
        ]
        form = {"type": "form", "message": f"Is it {secret}?", "title": f"About {secret}", "fields": fields}
        asked = await harness.call("ask_user", form)
        values = {"comment": f"no, {secret}", "password": "tulip-9-harbour"}
        answered = await desk.answer(str(asked.question_id), {"values": values}, who=secret)
        harness.heard("answer", answered.result_text)
        asked = await harness.call("ask_user", type="confirmation", message=f"{secret}?")
        await desk.expire(str(asked.question_id), reason=secret, who=secret)
        await harness.call("ask_user", {"type": "form", "message": "?", secret: 1})
    assert await harness.is_clean()
    assert not harness.has_heard("tulip-9-harbour")


async def test_images(harness: CanaryHarness):
    """The endpoint repeats whatever it was given, its key included."""
    key = harness.canaries.environment["IMAGE_API_KEY"]
    for number, canary in enumerate(harness.canaries):
        echoed = f"{canary.text} sent with Bearer {key}"
        harness.endpoint.reply({"error": {"message": echoed, "code": canary.secret}}, status=400)
        await harness.call("generate_image", prompt=f"a sign: {canary.text}", path="a.png")
        harness.endpoint.reply({"error": {"message": across(MAX_REASON_CHARS, canary)}}, status=400)
        await harness.call("generate_image", prompt="x", path="a.png")
        harness.endpoint.reply({"data": [{"url": f"http://images.example/{canary.secret}"}]})
        await harness.call("generate_image", prompt="x", path=f"{number}.png")
    assert await harness.is_clean()


async def test_refusals_that_repeat_what_was_asked(harness: CanaryHarness):
    """Wherever a long text would be cut, no half of a secret is told."""
    for canary in (
        *harness.canaries.known,
        harness.canaries["a GitHub token"],
        harness.canaries["a Google key"],
    ):
        for cut in CUTS:
            await _refused(harness, across(cut, canary))
        await _refused(harness, canary.secret)
    assert await harness.is_clean()


async def _refused(harness: CanaryHarness, long: str) -> None:
    options = [{"value": long}, {"value": "y"}]
    select = {"name": "x", "type": "select", "options": options, "default": f"{long} too"}
    if "/" not in long:
        # The parts of a path are names of folders, and told as such.
        await harness.call("list_files", path=long)
        await harness.call("generate_image", prompt="x", path=f"a.{long}")
    await harness.call("read_file", path=f"/{long}")
    await harness.call("read_file", path=f"../{long}", cursor=long)
    await harness.call("read_file", path="x", limit_bytes=long)
    await harness.call("read_file", {"path": "x", long: 1})
    await harness.call("read_file", f'{{"path": "{long}')
    await harness.call("find_files", name_pattern=f"../{long}")
    await harness.call("search_files", pattern=f"({long}")
    await harness.call("search_files", pattern=f"[[:{long}:]]")
    await harness.call("search_files", pattern="x", glob=f"../{long}")
    await harness.call("bash", cmd=f"( {long}")
    await harness.call("ask_user", type="confirmation", message="?", confirm_label=long)
    await harness.call("ask_user", type=long, message="?")
    await harness.call("ask_user", type="form", message="?", fields=[{"name": long}])
    await harness.call("ask_user", type="form", message="?", fields=[select])
    await harness.call("current_time", timezone=long)
    await harness.call(long, {"x": 1})
