"""Every command that the documentation shows, run in order in a home of its own."""
