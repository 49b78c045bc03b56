"""Checks the log against itself, and every table against the log.

`event_log` checks the hash chain; `rows` replays the events into rows and compares them with those that are
stored. Nothing is repaired.
"""
