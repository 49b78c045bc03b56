"""One file, one tool, one effect; what every tool declares, and the registry that holds them.

`tool.py` and `result.py` are open to the layers above. Everything else is reached through the gates: a
tool that could be run past them fails the build.
"""
