"""Keeps secrets from leaving: into the log, the transcript, a frame, the model or a process log.

It knows text and values, not where they go. It must never let a value it knows pass because of an
encoding.
"""
