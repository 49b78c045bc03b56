"""Reverts changes that calls made to files. The log records it before and after."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from interlock.config.protected_names import PROTECTED_NAMES
from interlock.core.errors import NothingToUndo
from interlock.log.kinds import UndoFinished, UndoStarted
from interlock.log.writer import EventLog
from interlock.sandbox.undo import FileUndoOutcome, Undo, merge_by_file, new_undo_id
from interlock.sandbox.undo_store import UndoEntry, UndoStore
from interlock.tools.threads import CancelSignal, run_in_thread


@dataclass(frozen=True, slots=True)
class UndoReport:
    """The outcome for each file."""

    undo_id: str
    outcomes: list[FileUndoOutcome]


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
        """`session_of` finds the session of a task.

        `has_other_machines`: others may share the log, and keep their own undo data.
        """
        self._session_of = session_of
        self._has_other_machines = has_other_machines
        self._kept = kept
        self._undo = Undo(kept, protected_names)
        self._log = log

    async def find_entries(self, identity: str) -> list[UndoEntry]:
        """The changes of a session, task, call or undo that can be reverted, newest first."""
        # A delegated task works in the session of its parent.
        session_id = await self._session_of(identity.partition(".")[0])
        entries = await run_in_thread(CancelSignal(), lambda: self._kept.find(identity, session_id))
        if not entries:
            raise NothingToUndo(self._nothing(identity))
        # Providers choose their own call ids: the same id in another session is another call.
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
        # `events tree --processes` shows where it ran.
        return f"{sentence} on this machine; changes by a worker on another machine must be undone there"

    async def revert(self, identity: str, *, who: str, within: Sequence[Path] | None = None) -> UndoReport:
        """Revert, newest first, changes of all origins; recorded in every session concerned.

        `within` are the directories opened now: only the operator can revert changes elsewhere. It runs to
        its end and records the result, even if the caller stops waiting.
        """
        return await self._to_its_end(await self.find_entries(identity), identity, who, within)

    async def redo(
        self, task_id: str, undo_id: str, *, who: str, within: Sequence[Path] | None = None
    ) -> UndoReport:
        """Revert an undo of a task; the result is the task's work again, and can be undone again."""
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
            # Retrieve the exception so that asyncio does not log it.
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
