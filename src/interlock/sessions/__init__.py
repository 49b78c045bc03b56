"""Sessions: their transcript, their mode, their leases, and the stored settings.

A mode is read here and nowhere else. This layer must never let a model, or the text of a message, change
it: the manager cannot switch modes at all, and the switch serves people only.
"""
