"""The agent: asks the model, runs what it asks for through the gates, and stops where a limit says so.

It decides nothing about what is allowed: that is read from the Authority, and every call goes through
`ToolRunner`. Nothing a model says changes the mode.
"""
