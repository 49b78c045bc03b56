"""What happens in a session, for whoever follows it: sockets, a chat in Telegram."""
