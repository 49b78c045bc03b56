"""Ways for people to reach an agent beside the page. Each puts tasks and shows what becomes of them.

A channel decides nothing: what may be done is read from the session like everywhere else. It must never
run a tool by itself, nor show anything of a task but what the log or the loop tells.
"""
