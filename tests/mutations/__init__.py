"""Breaks the code on purpose, one place at a time, to see that the tests named as evidence notice.

Run by `make mutations`. The mutations are data, in the .toml files of this folder.
"""
