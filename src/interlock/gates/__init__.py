"""The gates: the judgement of tool calls, and the only way to run one.

All code that shows, describes, judges or confines a tool reads one compiled `Authority`, and
`ToolRunner.call` is the only way to run one. Nothing in here may ever widen what a lower layer declared.
"""
