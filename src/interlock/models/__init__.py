"""Talks to models: a request in, pieces of text and one whole reply out.

A provider knows a protocol and nothing else: no session, no gate, no tool. It never repeats a request
by itself; whoever asked decides that, and knows what was already shown.
"""
