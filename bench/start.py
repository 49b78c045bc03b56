"""A cold `interlock --help` beside importing the command-line library alone."""

import resource
import subprocess
import sys

from bench.rows import Row, interleaved

ROUNDS = 15


def cpu_milliseconds(*arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def rows() -> list[Row]:
    library, help_page, group, bare = interleaved(
        ROUNDS,
        lambda: cpu_milliseconds("-c", "import cyclopts"),
        lambda: cpu_milliseconds("-m", "interlock", "--help"),
        lambda: cpu_milliseconds("-m", "interlock", "policy", "--help"),
        lambda: cpu_milliseconds("-c", "pass"),
    )
    return [
        Row("start: interlock --help, cold", help_page, library, "ms CPU", "ms import cyclopts", 1.3),
        Row("start: interlock policy --help, cold", group, library, "ms CPU", "ms import cyclopts"),
        Row("start: the library alone", library, bare, "ms CPU", "ms bare Python"),
    ]
