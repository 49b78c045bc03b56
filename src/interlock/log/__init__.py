"""The log: every fact, written ahead of its effect, chained by hashes, and the readings of it.

The only way anything in the store changes is through `writer.py`, together with the event that tells it.
This layer must never hold an opinion: it records what the layers above decided.
"""
