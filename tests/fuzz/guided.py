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
    from interlock.agent.front_matter import parse
    from interlock.agent.plain_files import Unfit
    from interlock.config.settings import PROTECTED_NAMES
    from interlock.models.assembling import Assembly
    from interlock.models.json_reply import AnswerInSight, InvalidReply, read_reply
    from interlock.models.openai_chat import _take
    from interlock.models.provider import ModelError
    from interlock.models.sse import EventReader, TooLong
    from interlock.sandbox.commands import CommandJudge
    from interlock.worker.wire import decoded, encoded
    from interlock.workflow.reading import Reading

    judge = CommandJudge((), PROTECTED_NAMES, "/home/ann")

    def answers(data: bytes) -> None:
        reader, assembly = EventReader(4096), Assembly()
        size = 1 + data[0] if data else 1
        with suppress(ModelError, TooLong):
            for at in range(1, len(data), size):
                taken = _take(reader.feed(data[at : at + size]), assembly)
                if taken.fault is not None:
                    raise taken.fault
            assembly.reply(is_done=True)

    def replies(data: bytes) -> None:
        text, sight = data.decode("utf-8", "replace"), AnswerInSight()
        for character in text:
            sight.feed(character)
        sight.finish()
        with suppress(InvalidReply):
            read_reply(text)

    def workflows(data: bytes) -> None:
        text = data.decode("utf-8", "replace").replace("\x00", "")
        reading = Reading("w", ["read_file"])
        reading.workflow(text, {"plan.md": text})
        assert all(problem.line >= 1 for problem in reading.problems)
        with suppress(Unfit):
            parse(text)

    def signals(data: bytes) -> None:
        signal = decoded(data)
        assert signal is None or decoded(encoded(signal)) == signal

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
