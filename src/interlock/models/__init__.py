"""Model providers: a request in, text deltas and one whole reply out.

A provider knows a protocol and nothing else: no session, no gate, no tool. It never repeats a request by
itself; the caller decides that, and knows what was already shown.
"""
