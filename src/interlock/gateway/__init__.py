"""Network access: one page, one WebSocket, and their authentication.

The gateway passes requests on and publishes events; the layers below decide what is allowed, as for every
other entry. It must never build objects, run a tool itself, or answer a request that has not passed its
guard.
"""
