"""Reads a shell command before it runs, and judges it by rules that are data.

The rules are advice and policy: the sandbox confines a command whatever they say. Nothing in here runs
a command.
"""
