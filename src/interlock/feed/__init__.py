"""What happens in a session, for whoever follows it: sockets, a chat in Telegram.

It reads each event once and tells all who follow the same pieces of it, whether they came early or late. It
must never tell anything as stored that the log does not have.
"""
