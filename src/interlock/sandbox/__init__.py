"""Confinement of tools: which files, network and processes they can reach.

`profile.py` holds types that every layer above may read. The rest of this package is for tools alone, and
it must never depend on the mode: it enforces the profile it is given.
"""
