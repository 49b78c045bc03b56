"""A model that does as it is told: `append LINE to FILE` becomes one call that writes, then an answer."""

import re

from tests.harness.model_answers import ModelAnswer, called, said
from tests.harness.model_server import ModelRequest


def order(line: str, file: str) -> str:
    return f"append {line} to {file}"


def decide(asked: ModelRequest) -> ModelAnswer:
    """By what came after the last order: the same request always gets the same answer."""
    messages = asked.messages
    last = max(place for place, message in enumerate(messages) if message["role"] == "user")
    match = re.search(r"append (\S+) to (\S+)", str(messages[last]["content"]))
    if match is None:
        return said("What shall I append?")
    line, file = match.groups()
    if any(message["role"] == "tool" for message in messages[last:]):
        return said(f"Done with {line}, as far as I know.")
    return called(
        ("write_file", {"path": file, "content": f"{line}\n", "mode": "append"}), ids=f"call_{line}"
    )
