"""Tools of other programs, over the Model Context Protocol.

A server is a foreign program, and untrusted: its names, descriptions, schemas, hints and results. Its tools
have no mode until the operator classifies them, and a class applies only to the exact definition that was
reviewed. A server that misbehaves loses its own call, and nothing else.
"""
