"""Tools of other programs, reached by the Model Context Protocol.

A server is somebody else's program. Nothing it says is trusted: not its names, its descriptions, its
schemas, its hints or its results. What it offers has no mode until the operator classed it, and a class
holds for exactly the definition that was looked at. A server that misbehaves loses its own call, and
nothing else.
"""
