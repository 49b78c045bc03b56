"""`python -m bench [PART ...]`: prints the table, of all parts or some; exits 1 on a missed target."""

import logging
import sys

import structlog

from bench import agent, files, fleet, gates, gateway, log, memory, redaction, spawn, start
from bench.rows import print_table

PARTS = {
    "gates": gates.rows,
    "log": log.rows,
    "files": files.rows,
    "spawn": spawn.rows,
    "start": start.rows,
    "memory": memory.rows,
    "redaction": redaction.rows,
    "gateway": gateway.rows,
    "agent": agent.rows,
    "fleet": fleet.rows,
}


def main() -> int:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    chosen = sys.argv[1:] or list(PARTS)
    if unknown := set(chosen) - set(PARTS):
        print(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
        return 2
    rows = [row for name in chosen for row in PARTS[name]()]
    print_table(rows)
    return 1 if any(row.verdict == "MISSED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
