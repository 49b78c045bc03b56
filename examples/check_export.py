"""Checks an export without Interlock. It needs only Python, and no trust in the author of the file.

    interlock sessions export SESSION --out session.jsonl
    python examples/check_export.py session.jsonl

A file of all events (interlock events export, or the page's Activity view) is checked in the same way, and
against an anchor that was kept elsewhere (interlock events anchor): --anchor LINE. docs/events.md, section
"How the chain is computed", explains the hashes.
"""

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Entry = dict[str, Any]

# The key and the signature at the end are of Ed25519, which the standard library cannot check.
_ANCHOR = r"interlock-anchor:1:([0-9a-f]{32}):(\d+):([0-9a-f]{64})(?::[0-9a-f]{64}:[0-9a-f]{128})?"

HEADER = ("id", "time_us", "stream", "seq", "task", "parent", "kind")


class Broken(Exception):
    """The first inconsistency in the file."""


def encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def lines_of(path: Path) -> Iterator[Entry]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                entry = json.loads(line, object_pairs_hook=once)
            except ValueError:
                raise Broken(f"line {number} is not JSON; was the file cut off?") from None
            if not isinstance(entry, dict) or entry.get("type") not in {"session", "message", "event"}:
                raise Broken(f"line {number} is neither a session, nor a message, nor an event")
            yield entry


def once(pairs: list[tuple[str, object]]) -> Entry:
    """An object that has a name twice would tell one thing here and another to its next reader."""
    entry = dict(pairs)
    if len(entry) != len(pairs):
        raise Broken("a line has the same name twice")
    return entry


class Told:
    """What the events of the file say about others: what was erased, and where streams stood."""

    def __init__(self, path: Path) -> None:
        self.erased: dict[str, list[tuple[int, int, int]]] = {}
        self.heads: dict[tuple[str, int], str] = {}
        self.messages: dict[int, Entry] = {}
        self.last: dict[str, int] = {}
        self.has_system = False
        for entry in lines_of(path):
            self.take(entry)

    def take(self, entry: Entry) -> None:
        if entry["type"] == "session":
            self.last[entry["id"]] = entry["last_seq"]
        if entry["type"] == "message" and self.messages.setdefault(entry["seq"], entry) is not entry:
            raise Broken(f"message {entry['seq']} stands there twice")
        if len(self.last) > 1:
            raise Broken("it holds two sessions; check one file for each")
        match entry.get("kind"):
            case "log.erased" if entry["stream"] == "system":
                facts = json.loads(entry["facts"])
                spans = [(first, last, facts["before_us"]) for first, last in facts["ranges"]]
                self.erased.setdefault(facts["of"], []).extend(spans)
            case "log.checkpoint":
                heads = json.loads(entry["facts"])["heads"]
                self.heads |= {(stream, seq): head for stream, seq, head in heads}
        self.has_system |= entry.get("stream") == "system"

    def may_be_missing(self, event: Entry) -> bool:
        """A session's own export does not hold the system stream, where erasures are recorded."""
        stream, seq = event["stream"], event["seq"]
        return not self.has_system or any(
            first <= seq <= last and event["time_us"] < before_us
            for first, last, before_us in self.erased.get(stream, [])
        )


class Check:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.told = Told(path)
        self.heads: dict[str, tuple[int, str]] = {}
        self.events = self.messages = self.erased = 0
        self.checkpoints: dict[tuple[int, str], str] = {}

    def run(self) -> None:
        # In a file of all events, those of a stream that a busy PostgreSQL wrote late may stand too early.
        early: dict[tuple[str, int], Entry] = {}
        for entry in lines_of(self.path):
            if entry["type"] != "event":
                continue
            stream, seq = entry["stream"], entry["seq"]
            if seq <= self.last(stream) or (stream, seq) in early:
                raise Broken(f"{stream} #{seq}: it stands there twice")
            early[stream, seq] = entry
            while following := early.pop((stream, self.last(stream) + 1), None):
                self.link(following)
        for stream, seq in sorted(early):
            raise Broken(f"{stream} #{seq}: an event between #{self.last(stream)} and it is missing")
        for stream, seq in [*self.told.heads, *self.told.last.items()]:
            if self.last(stream) < seq:
                raise Broken(f"{stream}: the file tells of an event #{seq}; the end was cut off")
        if self.told.messages:
            raise Broken(f"message {min(self.told.messages)} stands there, but no event tells of it")

    def last(self, stream: str) -> int:
        return self.heads.get(stream, (0, ""))[0]

    def link(self, event: Entry) -> None:
        stream, seq = event["stream"], event["seq"]
        place = f"{stream} #{seq}"
        _, previous = self.heads.get(stream, (0, "0" * 64))
        if event["prev_hash"] != previous:
            raise Broken(f"{place}: it does not follow on the event before it")
        header = encoded([event[name] for name in HEADER])
        facts = hashlib.sha256(event["facts"].encode()).digest()
        content_hash = bytes.fromhex(event["content_hash"] or "0" * 64)
        computed = hashlib.sha256(bytes.fromhex(previous) + header + facts + content_hash).hexdigest()
        if computed != event["hash"]:
            raise Broken(f"{place}: its header or its facts were changed")
        self.check_content(event, place)
        if self.told.heads.get((stream, seq), computed) != computed:
            raise Broken(f"{place}: a checkpoint saw another event there")
        self.heads[stream] = seq, computed
        self.events += 1

    def check_content(self, event: Entry, place: str) -> None:
        if event["kind"] == "log.checkpoint":
            self.checkpoints[event["seq"], json.loads(event["facts"])["store_id"]] = event["hash"]
        if event["content"] is None:
            if event["content_hash"] is not None:
                if not self.told.may_be_missing(event):
                    raise Broken(f"{place}: its content is missing, and nothing says that it was erased")
                self.erased += 1
            return
        salted = bytes.fromhex(event["salt"]) + event["content"].encode()
        if hashlib.sha256(salted).hexdigest() != event["content_hash"]:
            raise Broken(f"{place}: its content was changed")
        if self.told.last and (said := _message_of(event)) is not None:
            self.check_message(event, said, place)

    def check_message(self, event: Entry, said: Entry, place: str) -> None:
        message = self.told.messages.pop(event["seq"], None)
        if message is None:
            raise Broken(f"{place}: its message is missing")
        if any(message[name] != said[name] for name in ("role", "content", "tool_calls", "tool_call_id")):
            raise Broken(f"{place}: its message was changed")
        self.messages += 1

    def hold_to(self, anchor: str) -> None:
        match = re.fullmatch(_ANCHOR, anchor.strip())
        if match is None:
            raise Broken("this is not an anchor; give the whole line that `events anchor` printed")
        if self.checkpoints.get((int(match[2]), match[1])) != match[3]:
            raise Broken(f"the anchor's checkpoint, system #{match[2]}, is not in this file")


def _message_of(event: Entry) -> Entry | None:
    """The message that an event has, as a line of the export has it."""
    said: Entry = json.loads(event["facts"]) | json.loads(event["content"])
    if event["kind"] == "turn.completed":
        return said | {"role": "assistant", "tool_calls": said["calls"], "tool_call_id": None}
    if event["kind"] in {"tool_call.completed", "tool_call.failed", "tool_call.denied"} and said["result"]:
        content = encoded(said["result"]).decode()
        return {"role": "tool", "content": content, "tool_calls": None, "tool_call_id": said["call_id"]}
    return said if event["kind"] == "message.appended" else None


def main() -> None:
    parser = argparse.ArgumentParser(description="Checks an export of Interlock's log.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--anchor", help="a line of `interlock events anchor`, kept elsewhere")
    asked = parser.parse_args()
    try:
        check = Check(asked.file)
        check.run()
        if asked.anchor:
            check.hold_to(asked.anchor)
    except (Broken, OSError) as error:
        sys.exit(f"broken: {error}")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        sys.exit(f"broken: a line has not the form of an export ({type(error).__name__}: {error})")
    print(
        f"whole: {check.events} events in {len(check.heads)} streams, {check.messages} messages, "
        f"{len(check.checkpoints)} checkpoints, {check.erased} with erased content"
    )
    for stream, (seq, head) in check.heads.items() if len(check.heads) == 1 else ():
        print(f"{stream} ends with #{seq}, {head}")


if __name__ == "__main__":
    main()
