"""`python -m tests.mutations [WORD …]`: tries every mutation, or those with one of these ids or files."""

import queue
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tests.mutations.catalogue import ROOT, Mutation, read_mutations
from tests.mutations.trial import Bench

_AT_ONCE = 2
_SHOWN_LINES = 25


def tried(bench: Bench, mutation: Mutation, *, passes: bool) -> tuple[str | None, str]:
    """What is wrong with this mutation or its test, or None, and what pytest said."""
    if not passes and not (whole := bench.run(mutation.test)).all_passed:
        return "the test does not pass on the code as it is", whole.text
    broken = bench.run_broken(mutation)
    return broken.complaint, broken.text


def try_all(mutations: list[Mutation], tree: Path = ROOT) -> int:
    """Print a line for each, and give back how many were not noticed."""
    benches: queue.SimpleQueue[Bench] = queue.SimpleQueue()
    passing: set[str] = set()
    survived = 0

    def try_whole(tests: list[str]) -> None:
        # All at once: that spares most starts of pytest. Where one does not pass, each is tried alone.
        bench = benches.get()
        if tests and bench.run(*tests).all_passed:
            passing.update(tests)
        benches.put(bench)

    def try_broken(mutation: Mutation) -> tuple[str | None, str]:
        bench = benches.get()
        try:
            return tried(bench, mutation, passes=mutation.test in passing)
        finally:
            benches.put(bench)

    with ExitStack() as stack:
        for _ in range(_AT_ONCE):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="interlock-mutations-"))
            benches.put(Bench(tree, Path(folder)))
        pool = stack.enter_context(ThreadPoolExecutor(_AT_ONCE))
        tests = sorted({mutation.test for mutation in mutations})
        list(pool.map(try_whole, (tests[part::_AT_ONCE] for part in range(_AT_ONCE))))
        for mutation, (complaint, text) in zip(mutations, pool.map(try_broken, mutations), strict=True):
            say(line_of(mutation, complaint))
            if complaint is not None:
                survived += 1
                say("\n".join(text.splitlines()[-_SHOWN_LINES:]))
    return survived


def line_of(mutation: Mutation, complaint: str | None) -> str:
    line = f"{mutation.id:<10} {mutation.file}: {mutation.breaks}"
    return f"noticed   {line}" if complaint is None else f"SURVIVED  {line}\n          {complaint}"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(words: list[str]) -> int:
    chosen = [
        mutation for mutation in read_mutations() if not words or {mutation.id, mutation.file} & {*words}
    ]
    began = time.monotonic()
    survived = try_all(chosen)
    seconds = time.monotonic() - began
    noticed = len(chosen) - survived
    say(f"{len(chosen)} mutations: {noticed} noticed, {survived} survived, in {seconds:.0f} s")
    return 0 if chosen and not survived else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
