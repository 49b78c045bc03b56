"""One Interlock, built as the product builds it, in which canaries are planted and everything is kept.

A channel that comes later (a model, a socket, a page) plants through its own entry and hands what came
out of it to `heard`; `left_behind` then looks there as well.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from interlock.config.modes import ToolMode
from interlock.config.settings import load_settings
from interlock.core.logging import log_to_stderr
from interlock.db.backup_and_restore import create_backup
from interlock.gates.gate import ToolCall
from interlock.log.hash_chain import new_event_id
from interlock.log.read import LOG_START, read_all
from interlock.log.tree import event_json
from interlock.redaction.redactor import MARK
from interlock.sandbox.backend_selection import BackendSelection, backend_factories
from interlock.tools.result import ToolResult
from interlock.tools.tool import BaseTool, ToolContext
from interlock.wiring import open_runtime, store_config
from tests.canary.canaries import Canaries
from tests.canary.hunting import Sighting, files_below, hunt, tables_of
from tests.harness.image_server import ImageServer

PROCESS_LOG = "process.log"


class CanaryHarness:
    """`root` is the opened folder. What is kept for undo, paging and proof is raw, and is meant to be."""

    def __init__(self, canaries: Canaries, folder: Path, endpoint: ImageServer, output: Any) -> None:
        self.canaries, self.folder = canaries, folder
        self.endpoint, self._output = endpoint, output
        self.root, self.state, self.workspace = (folder / name for name in ("root", "state", "workspace"))
        self.root.mkdir()
        self._heard: dict[str, bytes] = {}
        raw = ("kept", "outputs", "sealed", "guard")
        self._raw: list[Path] = [self.root, *(self.state / name for name in raw)]

    async def open(self) -> "CanaryHarness":
        """From the environment, as every process begins."""
        settings = load_settings()
        log_to_stderr(settings.log_level)
        self.runtime = open_runtime(
            settings,
            opened=list(ToolMode),
            roots=(self.root,),
            sandbox=BackendSelection(backend_factories(())["landlock"](), "for the canaries"),
        )
        made = await self.runtime.sessions.create(opened_by="canary", mode=ToolMode.coding)
        self.session_id = made.id
        return self

    def add(self, tool: BaseTool) -> None:
        self.runtime.registry.register(tool)

    def write(self, path: str, text: str | bytes) -> Path:
        """A file made behind the tools' back, in the opened folder."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    def note(self, path: str, text: str) -> None:
        """A note of a person's own: it keeps what they wrote."""
        file = self.workspace / "memory" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self._raw.append(file)

    async def call(
        self, name: str, arguments: Mapping[str, Any] | str | None = None, **more: Any
    ) -> ToolResult:
        """Call a tool; its result as it is given back, and what it tells meanwhile, are heard."""
        given = arguments if isinstance(arguments, str) else {**(arguments or {}), **more}
        place = f"{name} {len(self._heard)}"
        result = await self.runtime.runner.call(
            ToolCall(f"call_{new_event_id()[-12:]}", name, given),
            await self.runtime.authority(ToolMode.coding),
            ToolContext(
                self.session_id, report_progress=lambda text: self.heard(f"progress of {place}", text)
            ),
        )
        shown = json.dumps(result.as_dict(), ensure_ascii=False)
        self.heard(f"result of {place}", shown)
        # Nothing here holds the mark by itself, unless it was given.
        assert result.redacted or MARK not in shown or MARK in str(given), (name, given, shown)
        return result

    async def ok(self, name: str, **arguments: Any) -> ToolResult:
        result = await self.call(name, arguments)
        assert result.failure is None, result.failure
        return result

    async def pages(self, name: str, **arguments: Any) -> list[ToolResult]:
        pages = [await self.call(name, arguments)]
        while pages[-1].next_page_cursor:
            pages.append(await self.ok(name, cursor=pages[-1].next_page_cursor, **arguments))
        return pages

    def heard(self, place: str, *texts: str | bytes) -> None:
        """What somebody was given, or could read: it is looked through at the end."""
        said = [text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text for text in texts]
        self._heard[place] = b"\n".join([self._heard.get(place, b""), *said])

    def has_heard(self, text: str) -> bool:
        return any(text.encode() in said for said in self._heard.values())

    async def left_behind(self) -> list[Sighting]:
        """Everything that is stored, exported, backed up or was said, looked through for canaries."""
        runtime = self.runtime
        said: list[Any] = [
            *await runtime.sessions.transcript(self.session_id),
            *await runtime.sessions.list_sessions(),
            *await runtime.questions.list_questions(include_closed=True),
        ]
        with runtime.database.reading() as connection:
            events = read_all(connection, after=LOG_START, limit=100_000)
        exported = [*map(asdict, said), *map(event_json, events)]
        self.heard("what is exported", *(json.dumps(item, ensure_ascii=False) for item in exported))
        process_log = (self.folder / PROCESS_LOG).read_bytes()
        self.heard("the process's own output", process_log, *self._output.readouterr())
        create_backup(runtime.database, self.folder / "backup.zip")
        places = files_below(self.folder, besides=self._raw) | tables_of(store_config(runtime.settings))
        return hunt(self.canaries, places | self._heard)

    async def is_clean(self) -> bool:
        """Nothing is found because it was masked, not because nothing was planted."""
        left = await self.left_behind()
        assert not left, "\n".join(map(str, left))
        return self.has_heard(MARK)

    async def close(self) -> None:
        await self.runtime.close()
