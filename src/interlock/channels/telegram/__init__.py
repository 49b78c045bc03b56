"""A chat in Telegram as a way to reach an agent (docs/telegram.md, docs/decisions/0027).

What comes in is stored before Telegram is told that it arrived; what is shown follows the log. Nobody who
is not listed by the operator reaches anything behind `admission.py`. Only `bot.py` knows the library.
"""
