"""`python -m bench.soak --minutes 60`: one process under mixed load, and whether anything grows."""
