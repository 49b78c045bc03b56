"""The exit codes, the same for every command."""

from enum import IntEnum


class ExitCode(IntEnum):
    ok = 0
    failed = 1
    usage = 2
    denied = 3
    limit = 4
    nobody_to_answer = 5
    cancelled = 130
