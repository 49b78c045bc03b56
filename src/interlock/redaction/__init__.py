"""Masks secrets in text and values before they reach the log, the transcript, a frame or the model.

It knows text and values, not where they go. A known secret must never pass because of its encoding.
"""
