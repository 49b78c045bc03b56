"""Functions that start themselves again and again until nothing else can start."""

from interlock.sandbox.shell_tree import Block, Function, Simple
from interlock.sandbox.shell_tree import Command as Node


def starts_itself(function: Function) -> bool:
    """A fork bomb: twice in one pipeline, or in the background on every way through."""
    body = function.body
    if not isinstance(body, Block) or len(body.scripts) != 1:
        return False
    for item in body.scripts[0]:
        own = sum(_calls(node, function.name) for node in item.commands)
        if own > 1 or (own and item.is_background):
            return True
    return False


def _calls(node: Node, name: str) -> bool:
    if not isinstance(node, Simple) or not node.words:
        return False
    first = node.words[0]
    return "".join(getattr(part, "text", "") for part in first) == name
