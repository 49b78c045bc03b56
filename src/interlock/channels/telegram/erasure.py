"""What the bot has of a session's content, to be erased with the session.

Processes without the bot erase it as well, and need nothing else of this package.
"""

# Unfinished answers in a chat.
ERASE_QUESTIONS = "DELETE FROM telegram_questions WHERE session_id = ?"
