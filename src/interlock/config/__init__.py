"""The operator's decisions before the process started: modes and settings.

The lowest layer, beside `core`. It reads the environment and knows nothing of stores, tools or sessions,
and it never guesses: a value it cannot understand stops the start.
"""
