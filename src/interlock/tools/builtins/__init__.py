"""The built-in tools, one file each; `registration.py` lists them."""
