"""The feed of sessions, above a real store."""
