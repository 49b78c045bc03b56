"""Publishes the events of a session to its subscribers: sockets, a chat in Telegram.

It reads each event once and sends all subscribers the same items, whether they joined early or late. It
must never publish anything as stored that the log does not have.
"""
