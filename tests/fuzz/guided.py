"""The readers of what comes from outside, driven by atheris, which looks for inputs that reach new code.

It is no dependency. By hand, in a folder of its own for what it finds:

    uv pip install --target /tmp/guided atheris
    export PYTHONPATH=/tmp/guided:.
    .venv/bin/python -m tests.fuzz.guided answers -max_total_time=300 /tmp/guided/corpus

The targets are `answers`, `replies`, `workflows`, `signals` and `commands`. A crash is an exception that is
none of ours: make a case of it in the tests beside this file.
"""

import sys
from contextlib import suppress
from pathlib import Path

LAYERS = ("models", "workflow", "sandbox", "worker", "agent")


def _targets():
    from interlock.agent.definitions import AgentHeader
    from interlock.agent.front_matter import read_headed_file
    from interlock.commands.judge import CommandJudge
    from interlock.config.protected_names import PROTECTED_NAMES
    from interlock.models.json_reply import InvalidReply, parse_json_reply
    from interlock.models.openai_chat import _take
    from interlock.models.provider import ModelError
    from interlock.models.sse import SseEventTooLong, SseReader
    from interlock.models.stream_accumulator import StreamAccumulator
    from interlock.runtime.bus import decode_message, encode_message
    from interlock.workflow.parser import parse_workflow

    judge = CommandJudge((), PROTECTED_NAMES, "/home/ann")

    def answers(data: bytes) -> None:
        reader, assembly = SseReader(4096), StreamAccumulator()
        size = 1 + data[0] if data else 1
        with suppress(ModelError, SseEventTooLong):
            for at in range(1, len(data), size):
                taken = _take(reader.feed(data[at : at + size]), assembly)
                if taken.fault is not None:
                    raise taken.fault
            assembly.reply(is_done=True)

    def replies(data: bytes) -> None:
        with suppress(InvalidReply):
            parse_json_reply(data.decode("utf-8", "replace"))

    def workflows(data: bytes) -> None:
        text = data.decode("utf-8", "replace").replace("\x00", "")
        workflow, problems = parse_workflow("w", text, {"plan.md": text}, ["read_file"])
        assert workflow is not None or problems
        read_headed_file("plan.md", text, AgentHeader, ["read_file"], no_body="no body", context="plan")

    def signals(data: bytes) -> None:
        signal = decode_message(data)
        assert signal is None or decode_message(encode_message(signal)) == signal

    def commands(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        assert judge.judge(text, "/home/ann/ws") == judge.judge(text, "/home/ann/ws")

    return {each.__name__: each for each in (answers, replies, workflows, signals, commands)}


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=[f"interlock.{layer}" for layer in LAYERS]):
        targets = _targets()
    name = sys.argv.pop(1)
    if len(sys.argv) > 1 and not sys.argv[-1].startswith("-"):
        Path(sys.argv[-1]).mkdir(parents=True, exist_ok=True)
    atheris.Setup(sys.argv, targets[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
