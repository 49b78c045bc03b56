"""Detects functions that start themselves until no other process can start."""

from interlock.commands.syntax_tree import CommandNode as Node
from interlock.commands.syntax_tree import CompoundCommand, FunctionDefinition, SimpleCommand


def is_fork_bomb(function: FunctionDefinition) -> bool:
    """Whether it calls itself twice in one pipeline, or in the background on every path."""
    body = function.body
    if not isinstance(body, CompoundCommand) or len(body.scripts) != 1:
        return False
    for item in body.scripts[0]:
        own = sum(_calls(node, function.name) for node in item.commands)
        if own > 1 or (own and item.is_background):
            return True
    return False


def _calls(node: Node, name: str) -> bool:
    if not isinstance(node, SimpleCommand) or not node.words:
        return False
    first = node.words[0]
    return "".join(getattr(part, "text", "") for part in first) == name
