"""Where a tool's effects end: which files, which network, which processes.

`profile.py` holds types that every layer above may read. The rest of this package is for tools alone,
and it must never ask what mode it is in: it enforces the profile it is given.
"""
