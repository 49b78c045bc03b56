"""The event log: every fact, written ahead of its effect and chained by hashes, and the queries on it.

Everything in the store changes through `writer.py`, together with the event that records the change. This
layer must never decide anything: it records what the layers above decided.
"""
