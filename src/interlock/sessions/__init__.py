"""Conversations: their transcript, their mode, who may write to them, and the stored settings.

A mode is read here and nowhere else. This layer must never let a model, or anything a message says,
change it: the manager cannot switch modes at all, and the switch serves people only.
"""
