"""Shared by the shell tools: judging a command, running it in the sandbox, and paging its output.

A command never runs without a backend of `sandbox`; if there is none, the tools are not offered.
"""
