"""What the shell tools share: how a command is judged, run in the sandbox, and its output kept and paged.

A command is never run here without a backend of `sandbox`; where there is none, the tools are not offered.
"""
