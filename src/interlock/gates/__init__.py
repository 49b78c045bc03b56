"""What may be done here now, and the only way to do it.

One compiled `Authority` is read by everybody who shows, describes, judges or confines a tool, and
`ToolRunner.call` is the only door to running one. Nothing in here may ever widen what a lower layer
declared.
"""
