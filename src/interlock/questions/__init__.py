"""Questions to people: what can be asked, what answers it, and the rows that wait for an answer.

A question is a row, never a waiting coroutine: it outlives the process that asked. Nothing here decides
whether a tool may ask, and nothing secret is ever stored.
"""
