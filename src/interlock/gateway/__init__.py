"""The way in over the network: one page, one WebSocket, and who may use them.

It asks and tells; what may be done is decided by the layers below it, as it is for every other way in.
It must never build objects, run a tool by itself, or answer a request that has not passed its doors.
"""
