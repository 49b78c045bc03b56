"""Notes of people and agents: markdown files, and a search index over them.

The notes are authoritative, and people edit them with their own editors. The index in the store is derived
from them, follows every change, never holds a secret, and can be dropped at any time.
"""
