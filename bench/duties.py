"""What Interlock must cost: every duty that has a figure, in the order of the page that shows them."""

from enum import Enum


class Duty(Enum):
    """A duty, as the page names it, and below which bound it cannot be."""

    session = "a governed session: gates, write-ahead log, redaction", "the bare loop"
    governed = "the same, beside a governed loop of 150 lines", "a loop with the same barriers"
    growth = "CPU per step, 256 steps beside 8", "1.0"
    gate = "a gate decision", "a dict look-up"
    event = "a durable event, alone", "one fdatasync and a change of threads"
    events = "CPU of a durable event, 50 sessions at once", "a bare group commit"
    rate = "durable events a second, 50 sessions at once", "a bare group commit"
    child = "a sandboxed child and the supervisor of its tree", "a plain asyncio spawn"
    search = "search of 20 000 files", "rg itself"
    page = "a page of a file of 1 GB", "the same of 1 MB"
    frame = "a WebSocket frame to 200 sockets", "one write each"
    redaction = "redaction with all rules", "the rules in turn by re"
    delta = "redaction of a streamed delta", "a copy"
    start = "interlock --help, cold", "importing the CLI library"
    server = "memory of a warm server", "the interpreter"
    memory = "memory of one of 100 sessions at once", "125 KB of the bare loop"

    def __init__(self, what: str, limit: str) -> None:
        self.what = what
        self.limit = limit
