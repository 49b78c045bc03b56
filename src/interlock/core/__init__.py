"""Code that every layer uses and that imports none of them: errors, logging, threads, locks, text.

It must never import a layer above, nor hold code that only one of them needs.
"""
