"""Checks the log against itself, and every table against the log.

`event_log` checks the hash chain and runs the verifier of each kind of row. A verifier replays the events
of its entity and compares the result with the stored row; it never repairs anything.
"""
