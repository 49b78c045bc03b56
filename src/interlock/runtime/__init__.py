"""Tasks: each message becomes one, a worker runs it under a lease, and it ends exactly once.

Front ends queue tasks and follow events; the work itself is a `TaskHandler`. Nothing here knows of models
or tools, and a session's tasks change only under that session's head.
"""
