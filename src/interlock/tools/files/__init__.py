"""Shared by the file tools: paging, cursors, text formats, and the read history of a session.

Nothing here opens a path by itself: every access goes through `sandbox.paths`. The tools themselves are in
`builtins`, one file each.
"""
