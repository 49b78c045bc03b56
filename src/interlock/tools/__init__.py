"""Tools: the interface that every tool implements, the built-in tools, and the registry.

One file, one tool, one effect. `tool.py` and `result.py` are open to the layers above. Everything else is
reached through the gates: a tool that could be run past them fails the build.
"""
