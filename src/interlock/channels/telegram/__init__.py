"""A chat in Telegram as a way to reach an agent (docs/telegram.md, docs/decisions/0027).

Updates are stored before they are acknowledged to Telegram; what is shown follows the log. Only people whom
the operator listed get past `access_control.py`. Only `bot_api.py` uses the library.
"""
