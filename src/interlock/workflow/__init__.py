"""Workflows: graphs of steps that people write, and where each run of one has come to.

A run only ever moves along the edges of the graph it began with. This layer puts no task and calls no
model: `worker` does the work of a step, and asks here what follows.
"""
