"""What every layer uses, and what knows none of them: errors, the process's own log, threads, records.

It must never import a layer above, nor hold what only one of them needs.
"""
