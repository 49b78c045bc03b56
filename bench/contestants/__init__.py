"""The same work by each contestant: tool calls, each in a turn of its own, and a streamed answer.

Each file is a program of its own, run with its contestant's Python: `FILE '{"base_url": …}'` prints what a
session cost as one JSON line. `stage.py`, which they share, imports nothing but the standard library.
"""
