"""A session in the terminal: its display, what Ctrl-C does, and the tasks that the command runs itself."""
