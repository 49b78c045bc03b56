"""The built-in rules, as data. An operator's own have the same form."""
