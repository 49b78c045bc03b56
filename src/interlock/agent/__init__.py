"""The agent: calls the model, runs its tool calls through the gates, and stops at limits.

It decides nothing about permissions: they come from the Authority, and every call goes through
`ToolRunner`. Nothing a model says changes the mode.
"""
