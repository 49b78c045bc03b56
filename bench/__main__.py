"""`python -m bench [PART ...] [--page]`: measures, all parts or some; exits 1 on a missed target.

The details come first, then one table with the verdict on each duty, and Interlock beside its peers.
`--page` writes that table and a chart of it to docs.
"""

import argparse
import sys

from bench import agent, files, fleet, gates, gateway, growth, log, memory, redaction, report, spawn, start
from bench.page import write_page
from bench.rows import print_lines, print_table

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
    "growth": growth.rows,
}
PEERS = "peers"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join([*PARTS, PEERS]))
    parser.add_argument("--page", action="store_true", help="write docs/performance.md and its chart")
    given = parser.parse_args()
    chosen = given.parts or [*PARTS, PEERS]
    if unknown := set(chosen) - {*PARTS, PEERS}:
        parser.error(
            f"there is no part {', '.join(sorted(unknown))}; there are {', '.join([*PARTS, PEERS])}"
        )
    rows = [row for name in chosen if name != PEERS for row in PARTS[name]()]
    contestants = agent.contestants() if PEERS in chosen else []
    print_table(rows)
    for head, lines in (
        (report.DUTY_HEAD, report.duty_lines(rows)),
        (report.CONTESTANT_HEAD, report.contestant_lines(contestants)),
    ):
        if lines:
            print()
            print_lines(head, lines)
    if given.page:
        write_page(rows, contestants)
    return 1 if any(row.verdict == "MISSED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
