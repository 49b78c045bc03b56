"""What people see of whole conversations, recorded: a change of it must be seen, and meant."""
