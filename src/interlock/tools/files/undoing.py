"""A person takes back what calls did to files. It is told in the log before and after."""

from dataclasses import dataclass
from functools import partial

from interlock.events.catalog import UndoFinished, UndoStarted
from interlock.events.log import EventLog
from interlock.infra.errors import NothingToUndo
from interlock.sandbox.kept import KeptEntry, KeptVersions
from interlock.sandbox.undo import Undo, Undone, new_undo_id
from interlock.tools.blocking import CancelSignal, beside_the_loop


@dataclass(frozen=True, slots=True)
class UndoReport:
    undo_id: str
    outcomes: list[Undone]


class UndoDesk:
    def __init__(self, kept: KeptVersions, log: EventLog) -> None:
        self._kept = kept
        self._undo = Undo(kept)
        self._log = log

    async def kept_of(self, identity: str) -> list[KeptEntry]:
        """What can be taken back of a session, a task or a single call, newest first."""
        entries = await beside_the_loop(CancelSignal(), lambda: self._kept.find(identity))
        if not entries:
            raise NothingToUndo(f"no change of a file is kept for '{identity}'")
        return entries

    async def take_back(self, identity: str, *, who: str) -> UndoReport:
        entries = await self.kept_of(identity)
        undo_id = new_undo_id()
        # Newest first within each session; what two sessions did is told in both.
        outcomes: list[Undone] = []
        for session_id in dict.fromkeys(entry.change.session_id for entry in entries):
            own = [entry for entry in entries if entry.change.session_id == session_id]
            started = UndoStarted(
                undo_id=undo_id, who=who, of=identity, paths=[entry.change.path for entry in own]
            )
            await self._log.append(session_id, started)
            done = await beside_the_loop(CancelSignal(), partial(self._undo.take_back, own, undo_id))
            finished = UndoFinished(
                undo_id=undo_id,
                restored=[outcome.path for outcome in done if outcome.reason is None],
                left=[[outcome.path, outcome.reason] for outcome in done if outcome.reason is not None],
            )
            await self._log.append(session_id, finished)
            outcomes += done
        return UndoReport(undo_id, outcomes)
