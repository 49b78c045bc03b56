"""Channels besides the page: the terminal and Telegram. Each queues tasks and shows their progress.

A channel decides nothing: permissions come from the session, as everywhere. It must never run a tool
itself, nor show anything of a task but what the log or the agent loop reports.
"""
