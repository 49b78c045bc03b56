"""Durable storage: one schema on SQLite or PostgreSQL, and the one writer that commits in groups.

It knows tables, transactions and files. It must never know what a session, a tool or an event means,
and it never repairs, deletes or replaces a file it does not recognise.
"""
