"""What else finds secrets, from the registry, each in an environment of its own that is made once.

This file is both sides: `Peer.scan` starts it again with the peer's Python, where it must import nothing
but the peer. CredSweeper was chosen because it found most of what works without a network: with its model
it masked 82 % of the shared cases, Kingfisher 2.14 without asking the vendors 42 %, secretlint 13 with its
recommended rules 22 %.
"""

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROUNDS = 3

Found = dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Scan:
    """The values found in each file, and the CPU seconds of the fastest of some rounds."""

    found: Found
    seconds: float


@dataclass(frozen=True, slots=True)
class Peer:
    """`way` is how it is used; one package may be a peer in several ways."""

    name: str
    package: str
    way: str

    def scan(self, folder: Path, rounds: int = ROUNDS) -> Scan:
        answer = folder.with_suffix(".json")
        program = [self.python(), Path(__file__), self.way, folder, answer, str(rounds)]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return Scan(**json.loads(answer.read_text()))

    def python(self) -> Path:
        from bench.environments import python_with

        return python_with(self.package, self.package)


PEERS = (
    Peer("detect-secrets, files", "detect-secrets==1.5.0", "detect_secrets_in_files"),
    Peer("detect-secrets, lines", "detect-secrets==1.5.0", "detect_secrets_in_lines"),
    Peer("CredSweeper, its model", "credsweeper==1.19.5", "credsweeper_with_its_model"),
)


def peers_at_hand() -> list[Peer]:
    """Those that could be installed; a registry may be out of reach."""
    found = []
    for peer in PEERS:
        try:
            peer.python()
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"redaction: without {peer.name}, which could not be installed: {error}")
        else:
            found.append(peer)
    return found


def detect_secrets_in_files(folder: Path) -> Found:
    """As `detect-secrets scan` does: every plugin and filter that is on by default."""
    from detect_secrets.core.scan import scan_file
    from detect_secrets.settings import default_settings

    with default_settings():
        return {
            path.name: [secret.secret_value for secret in scan_file(str(path))] for path in folder.iterdir()
        }


def detect_secrets_in_lines(folder: Path) -> Found:
    """As `detect-secrets scan --string` does, which takes a text without quotes for one."""
    from detect_secrets.core.scan import scan_line
    from detect_secrets.settings import default_settings

    with default_settings():
        return {
            path.name: [secret.secret_value for line in lines_of(path) for secret in scan_line(line)]
            for path in folder.iterdir()
        }


def credsweeper_with_its_model(folder: Path) -> Found:
    """All rules and filters; of its thresholds the one that found most here, at no more false alarms."""
    from credsweeper.app import CredSweeper
    from credsweeper.common.constants import ThresholdPreset
    from credsweeper.file_handler.files_provider import FilesProvider

    if not sweepers:
        sweepers.append(CredSweeper(pedantic=True, ml_threshold=ThresholdPreset.lowest))
    sweeper = sweepers[0]
    sweeper.credential_manager.clear_credentials()
    sweeper.run(FilesProvider([folder]))
    found: Found = {}
    for credential in sweeper.credential_manager.get_credentials():
        for line in credential.line_data_list:
            found.setdefault(Path(line.path).name, []).append(line.value)
    return found


# It takes long to make one, which is no part of a scan.
sweepers: list[Any] = []
WAYS: dict[str, Callable[[Path], Found]] = {
    way.__name__: way
    for way in (detect_secrets_in_files, detect_secrets_in_lines, credsweeper_with_its_model)
}


def lines_of(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


def main(way: str, folder: str, answer: str, rounds: str) -> None:
    logging.disable()
    found = WAYS[way](Path(folder))
    seconds = []
    for _ in range(int(rounds)):
        began = time.process_time()
        WAYS[way](Path(folder))
        seconds.append(time.process_time() - began)
    Path(answer).write_text(json.dumps({"found": found, "seconds": min(seconds)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
