"""What runs in the confined child process or on its way there.

These modules import nothing of Interlock outside this package, so that a child starts in milliseconds.
"""
