"""What Interlock costs, measured beside plain code in the same run: `make bench`.

Absolute times do not travel between machines. Every row is a ratio of two medians of interleaved rounds,
with the target it is held to.
"""
