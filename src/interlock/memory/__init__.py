"""What people and agents wrote down to be found again: markdown notes, and an index over them.

The notes are the truth, and people edit them with their own editors. The index in the store is made from
them, follows every change, never holds a secret, and can be thrown away at any time.
"""
