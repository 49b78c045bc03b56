"""Reads a shell command before it runs, and refuses what the rules name.

The rules are advice and policy: the sandbox confines a command whatever they say. Nothing in here runs
a command.
"""
