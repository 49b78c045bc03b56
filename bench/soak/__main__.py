"""Starts a model server and one `interlock serve`, sends people there, and looks at what the process holds.

The first tenth of the time, at least two minutes, is for warming up: caches fill, pools reach their size.
What is judged is the rest: its first quarter beside its last one, and what is left when everybody has gone.
"""

import argparse
import asyncio
import contextlib
import csv
import dataclasses
import itertools
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.harness.model_server import KEY

from bench.environments import ROOT
from bench.soak.people import Person, Tally
from bench.soak.watching import Holdings, Watch

PEOPLE = 10
SAMPLE_SECONDS = 15.0
# For tasks that somebody left alone to end, and for leases and caches to be given back.
QUIET_SECONDS = 45.0


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    held: Holdings
    tasks: int
    cpu_ms_per_task: float
    waits: Sequence[float]

    @property
    def median_ms(self) -> float:
        return statistics.median(self.waits) * 1000 if self.waits else 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    what: str
    before: float
    after: float
    most: float

    @property
    def is_met(self) -> bool:
        return self.after <= self.most

    def __str__(self) -> str:
        return (
            f"{'flat' if self.is_met else 'GROWS':6} {self.what}: "
            f"{self.before:,.1f}, later {self.after:,.1f} (at most {self.most:,.1f})"
        )


# What was seen while people were there, once everybody had gone, and what they did.
Course = tuple[list[Sample], Sample, Tally]


@contextlib.contextmanager
def _started(*words: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    environment = {"PATH": os.environ["PATH"], "HOME": variables.pop("HOME", "/")}
    environment["PYTHONPATH"] = f"{ROOT}:{ROOT}/src"
    process = subprocess.Popen(
        [sys.executable, "-m", *words],
        env=environment | variables,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        process.kill()
        process.wait()


def _variables(home: Path, model_url: str) -> dict[str, str]:
    shutil.copytree(ROOT / "examples" / "playground", home / "root")
    (home / "root" / "notes").mkdir()
    (home / "tmp").mkdir()
    return {
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "INTERLOCK_STATE_DIR": str(home / "state"),
        "WORKSPACE_DIR": str(home / "workspace"),
        "TOOL_ALLOWED_ROOTS": str(home / "root"),
        "MODEL": "openai",
        "OPENAI_MODEL": "double-1",
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": model_url,
    }


async def _line(process: subprocess.Popen[str]) -> str:
    line = await asyncio.to_thread(process.stdout.readline)
    if not line:
        raise SystemExit("a process of the soak did not start; see above")
    return line.strip()


async def _soak(minutes: float, home: Path) -> Course:
    with _started("bench.soak.model") as model:
        variables = _variables(home, await _line(model))
        serve = ("interlock", "serve", "--port", "0", "--open", "chat,plan,coding")
        with _started(*serve, **variables) as server:
            port = int((await _line(server)).split("/#")[0].rsplit(":", 1)[1])
            with _started("interlock", "token", "add", "soak", **variables) as adding:
                token = await _line(adding)
            watch = Watch(server.pid, home / "state", home / "tmp")
            return await _watched(minutes, watch, port, token)


async def _watched(minutes: float, watch: Watch, port: int, token: str) -> Course:
    total, tally, stop, numbers = Tally(), Tally(), asyncio.Event(), itertools.count(1)
    people = [asyncio.create_task(Person(port, token, tally, numbers).run(stop)) for _ in range(PEOPLE)]
    samples: list[Sample] = []
    held = watch.look()
    for _ in range(round(minutes * 60 / SAMPLE_SECONDS)):
        await asyncio.sleep(SAMPLE_SECONDS)
        sample = _sample(held, watch.look(), tally)
        held = sample.held
        samples.append(sample)
        _tell(samples)
        _move(tally, total)
    stop.set()
    await asyncio.gather(*people)
    await asyncio.sleep(QUIET_SECONDS)
    _move(tally, total)
    return samples, _sample(held, watch.look(), tally), total


def _sample(before: Holdings, now: Holdings, tally: Tally) -> Sample:
    spent = (now.cpu_seconds - before.cpu_seconds) * 1000
    return Sample(now, tally.tasks, spent / max(1, tally.tasks), list(tally.waits))


def _move(tally: Tally, total: Tally) -> None:
    """What was counted is counted once; `tally` begins anew."""
    total.ends.update(tally.ends)
    total.waits += tally.waits
    total.denied += tally.denied
    total.faults += tally.faults
    tally.ends, tally.denied = Counter(), 0
    tally.waits.clear()
    tally.faults.clear()


def _tell(samples: Sequence[Sample]) -> None:
    last = samples[-1]
    held = last.held
    print(
        f"{len(samples) * SAMPLE_SECONDS / 60:6.2f} min  {last.tasks:4} tasks  "
        f"{last.cpu_ms_per_task:6.1f} ms CPU each  {last.median_ms:6.1f} ms median  "
        f"{held.anonymous_kb / 1024:6.1f} MB  {held.descriptors:3} descriptors  {held.threads:2} threads  "
        f"{held.children} children  {held.temporary_files} temporary  {held.leases} leases  "
        f"{held.database_mb:6.1f} MB database  {held.journal_mb:4.1f} MB journal",
        flush=True,
    )


def judged(samples: Sequence[Sample], quiet: Sample) -> list[Verdict]:
    warm = samples[max(len(samples) // 10, min(len(samples) // 2, round(120 / SAMPLE_SECONDS))) :]
    quarter = max(1, len(warm) // 4)
    first, last = warm[:quarter], warm[-quarter:]

    def beside(what: str, most: float, more: float, of: Callable[[Sample], float]) -> Verdict:
        """The later may be so many times the earlier, and a fixed amount more."""
        before, after = (statistics.median(map(of, part)) for part in (first, last))
        return Verdict(what, before, after, before * most + more)

    def left(what: str, of: Callable[[Holdings], float], most: float | None = None) -> Verdict:
        """No more than there ever were at least, while people were there."""
        least = min(of(each.held) for each in warm)
        return Verdict(f"{what} left in the end", least, of(quiet.held), least if most is None else most)

    return [
        beside("memory (MB)", 1.05, 2, lambda each: each.held.anonymous_kb / 1024),
        beside("CPU of a task (ms)", 1.15, 0, lambda each: each.cpu_ms_per_task),
        beside("a plain task, from sent to done (ms)", 1.25, 1, lambda each: each.median_ms),
        beside("threads", 1, 0, lambda each: each.held.threads),
        beside("journal (MB)", 1, 8, lambda each: each.held.journal_mb),
        left("descriptors", lambda held: held.descriptors),
        left("children", lambda held: held.children),
        left("temporary files", lambda held: held.temporary_files),
        left("leases", lambda held: held.leases, 0),
        left("unfinished tasks", lambda held: held.unfinished_tasks, 0),
    ]


def _keep(samples: Sequence[Sample], path: Path) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        names = [field.name for field in dataclasses.fields(Holdings)]
        rows.writerow(["tasks", "cpu_ms_per_task", "median_ms", *names])
        for each in samples:
            held = dataclasses.astuple(each.held)
            rows.writerow([each.tasks, f"{each.cpu_ms_per_task:.2f}", f"{each.median_ms:.2f}", *held])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--csv", type=Path, help="keep every sample in this file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="interlock-soak-") as home:
        samples, quiet, total = asyncio.run(_soak(given.minutes, Path(home)))
        places = {"INTERLOCK_STATE_DIR": f"{home}/state", "WORKSPACE_DIR": f"{home}/workspace"}
        verify = [sys.executable, "-m", "interlock", "events", "verify"]
        verified = subprocess.run(verify, env=os.environ | places, check=False)
    if given.csv is not None:
        _keep([*samples, quiet], given.csv)
    print(f"{total.tasks} tasks: {dict(total.ends)}; {total.denied} calls denied")
    for fault, times in Counter(total.faults).most_common(20):
        print(f"a person met {times} times: {fault}")
    verdicts = judged(samples, quiet)
    print(*verdicts, sep="\n")
    return 0 if all(each.is_met for each in verdicts) and verified.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
