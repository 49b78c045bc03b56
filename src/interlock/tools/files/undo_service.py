"""A person takes back what calls did to files. It is told in the log before and after."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from interlock.config.settings import PROTECTED_NAMES
from interlock.core.errors import NothingToUndo
from interlock.log.kinds import UndoFinished, UndoStarted
from interlock.log.writer import EventLog
from interlock.sandbox.undo import Undo, UndoOutcome, merge_by_file, new_undo_id
from interlock.sandbox.undo_store import UndoEntry, UndoStore
from interlock.tools.threads import CancelSignal, run_in_thread


@dataclass(frozen=True, slots=True)
class UndoReport:
    """What became of each file."""

    undo_id: str
    outcomes: list[UndoOutcome]


class UndoService:
    def __init__(
        self,
        kept: UndoStore,
        log: EventLog,
        session_of: Callable[[str], Awaitable[str | None]],
        *,
        protected_names: tuple[str, ...] = PROTECTED_NAMES,
        has_other_machines: bool = False,
    ) -> None:
        """`session_of` knows the sessions of tasks.

        `has_other_machines`: others may share the log, and keep what they changed themselves.
        """
        self._session_of = session_of
        self._has_other_machines = has_other_machines
        self._kept = kept
        self._undo = Undo(kept, protected_names)
        self._log = log

    async def find_entries(self, identity: str) -> list[UndoEntry]:
        """What can be taken back of a session, a task, a single call or an undo, newest first."""
        # A task that was handed over works in the session of the one that did so.
        session_id = await self._session_of(identity.partition(".")[0])
        entries = await run_in_thread(CancelSignal(), lambda: self._kept.find(identity, session_id))
        if not entries:
            raise NothingToUndo(self._nothing(identity))
        # A provider numbers its calls as it likes; in another conversation the same id is another call.
        sessions = {entry.change.session_id for entry in entries if _is_only_a_call(entry, identity)}
        if len(sessions) > 1:
            raise NothingToUndo(
                f"{len(sessions)} sessions have a call with the id '{identity}'; undo one of those sessions"
            )
        return entries

    def _nothing(self, identity: str) -> str:
        sentence = f"there are no file changes to undo for '{identity}'"
        if not self._has_other_machines:
            return sentence
        # Where it ran is told by `events tree --processes`.
        return f"{sentence} on this machine; changes by a worker on another machine must be undone there"

    async def revert(self, identity: str, *, who: str, within: Sequence[Path] | None = None) -> UndoReport:
        """Newest first, whoever did it; what several sessions did is told in each of them.

        `within` are the folders that are opened now: what lies elsewhere is the operator's to take back.
        It goes to its end, and what it came to is told, whoever stops waiting for it.
        """
        return await self._to_its_end(await self.find_entries(identity), identity, who, within)

    async def redo(
        self, task_id: str, undo_id: str, *, who: str, within: Sequence[Path] | None = None
    ) -> UndoReport:
        """Take back an undo of a task; what it redoes is the task's work again, and can be undone again."""
        session_id = await self._session_of(task_id) or ""
        entries = await run_in_thread(
            CancelSignal(), lambda: self._kept.find_undo(undo_id, task_id, session_id)
        )
        if not entries:
            raise NothingToUndo(self._nothing(undo_id))
        return await self._to_its_end(entries, undo_id, who, within)

    async def _to_its_end(
        self, entries: list[UndoEntry], identity: str, who: str, within: Sequence[Path] | None
    ) -> UndoReport:
        taking = asyncio.create_task(self._take_back(entries, identity, who, within))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            await asyncio.wait({taking})
            # What went wrong with it, nobody is there to hear.
            if not taking.cancelled():
                taking.exception()
            raise

    async def _take_back(
        self, entries: list[UndoEntry], identity: str, who: str, within: Sequence[Path] | None
    ) -> UndoReport:
        undo_id = new_undo_id()
        sessions = list(dict.fromkeys(entry.change.session_id for entry in entries))
        for session_id in sessions:
            paths = list(
                dict.fromkeys(
                    entry.change.path for entry in entries if entry.change.session_id == session_id
                )
            )
            await self._log.append(
                session_id, UndoStarted(undo_id=undo_id, who=who, of=identity, paths=paths)
            )
        done = await run_in_thread(CancelSignal(), partial(self._undo.revert, entries, undo_id, within))
        for session_id in sessions:
            own = merge_by_file(
                outcome
                for entry, outcome in zip(entries, done, strict=True)
                if entry.change.session_id == session_id
            )
            finished = UndoFinished(
                undo_id=undo_id,
                restored=[outcome.path for outcome in own if outcome.reason is None],
                left=[[outcome.path, outcome.reason] for outcome in own if outcome.reason is not None],
            )
            await self._log.append(session_id, finished)
        return UndoReport(undo_id, merge_by_file(done))


def _is_only_a_call(entry: UndoEntry, identity: str) -> bool:
    change = entry.change
    is_of_task = change.task is not None and f"{change.task}.".startswith(f"{identity}.")
    return not change.by_undo and identity != change.session_id and not is_of_task
