"""Questions to people: their types, the validation of answers, and the rows that wait for one.

A question is a row, never a waiting coroutine: it outlives the process that asked. Nothing here decides
whether a tool may ask, and no secret is ever stored.
"""
