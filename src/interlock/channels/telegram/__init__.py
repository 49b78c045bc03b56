"""Telegram chats as a channel (docs/telegram.md, docs/decisions/0027).

Updates are stored before they are acknowledged to Telegram; messages are rendered from the log. Only people
listed by the operator pass `access_control.py`. Only `bot_api.py` uses the library.
"""
