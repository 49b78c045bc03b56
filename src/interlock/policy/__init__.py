"""Permissions: the policy of each layer, how layers combine, and the authority compiled from them.

Layers only tighten: nothing in here widens what a layer below allows. `gates` enforces the result.
"""
