"""Tasks: a message becomes one, a worker takes it up under a lease, and it ends exactly once.

Front ends put tasks and follow events; whoever does the work is handed in as a `TaskHandler`. Nothing
here knows of models or tools, and nothing may change a task of a session but under that session's head.
"""
