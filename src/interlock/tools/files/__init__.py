"""What the file tools share: paging, cursors, text forms, and what a session has seen of a file.

Nothing here opens a path by itself: every access goes through `sandbox.paths`. The tools themselves are
in `builtins`, one file each.
"""
