"""Workflows: graphs of steps that people write, and the state of their runs.

A run only moves along the edges of the graph it started with. This package queues no task and calls no
model: `runtime` runs the steps, and asks here what follows.
"""
