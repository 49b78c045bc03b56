"""Errors and process logs, used by every layer and knowing none of them."""
