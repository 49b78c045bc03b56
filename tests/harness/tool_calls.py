"""All built-in tools on real files, in one session, through the real gates, runner and log."""

import hashlib
from pathlib import Path

import pytest

from interlock.config.image import ImageEndpoint
from interlock.config.modes import ToolMode
from interlock.gates.gate import ToolCall
from interlock.gates.runner import ToolRunner
from interlock.log.read import iter_stream
from interlock.log.tree import payload_of
from interlock.policy.authority import Authority, AuthorityCache
from interlock.policy.authority_inputs import AuthorityInputs, CallLimits
from interlock.policy.policy_fields import FsPolicy, ToolPolicy
from interlock.redaction.redactor import Redactor
from interlock.sandbox.backend_selection import BackendSelection, backend_factories
from interlock.sandbox.file_changer import FileChanger
from interlock.sandbox.jobs import JobLimits, SandboxBackend
from interlock.sandbox.programs import BASH, RG, locate
from interlock.sandbox.undo_store import UndoStore
from interlock.tools.builtins.generate_image import ImageServices
from interlock.tools.builtins.registration import FileServices
from interlock.tools.files.read_history import ReadHistory
from interlock.tools.files.undo_service import UndoService
from interlock.tools.files.write_checks import WriteServices
from interlock.tools.registry import ToolRegistry
from interlock.tools.result import ToolResult
from interlock.tools.shell.output_spool import OutputSpool
from interlock.tools.shell.tool import ShellServices
from interlock.tools.tool import ToolContext
from interlock.wiring import build_registry, capabilities
from tests.harness.store import StoreHarness

SECRET = "sk-known-secret-value"


async def _no_task(_identity: str) -> None:
    """Its calls are not of tasks that the store knows."""


class ToolHarness:
    """`root` is the first opened folder, `outside` one that is not opened."""

    def __init__(self, store: StoreHarness, session_id: str, folder: Path) -> None:
        self.store, self.session_id = store, session_id
        self.root, self.outside = folder / "root", folder / "outside"
        for path in (self.root, self.outside):
            path.mkdir(exist_ok=True)
        self.roots: tuple[Path, ...] = (self.root,)
        self.mode = ToolMode.coding
        self.policy = ToolPolicy()
        self.limits = CallLimits()
        self.redactor = Redactor([SECRET])
        self.kept = UndoStore(folder / "state" / "kept", max_bytes=64 * 1024 * 1024)
        self.undo = UndoService(self.kept, store.log, _no_task)
        self.outputs = OutputSpool(folder / "state" / "outputs", max_bytes=64 * 1024 * 1024)
        self.backend: SandboxBackend | None = None
        self.images: ImageEndpoint | None = None
        self.job_limits = JobLimits()
        self._build()
        self.progress: list[str] = []
        self._count = 0

    def _build(self) -> None:
        desk = WriteServices(FileChanger(self.kept), ReadHistory(self.store.database.reading))
        self.registry = build_registry(
            None,
            FileServices(self.redactor, desk, locate(RG, ())),
            ShellServices(
                *(self.backend, locate(BASH, ()), self.redactor, self.outputs, self.job_limits),
                log=self.store.log,
            ),
            ImageServices(self.images, self.redactor, desk),
        )
        self.runner = ToolRunner(self.registry, self.store.log, self.redactor)
        self.authorities = AuthorityCache(self.registry)

    async def open_sandbox(self, name: str = "landlock") -> None:
        """Let commands run, in the real sandbox."""
        self.backend = backend_factories(())[name]()
        if self.backend is None:
            pytest.skip(f"{name} is not installed")
        self._build()

    def open_images(self, endpoint: ImageEndpoint, *secrets: str) -> None:
        """Let images be made there; the secrets are what the process then knows as such."""
        self.images, self.redactor = endpoint, Redactor([SECRET, *secrets])
        self._build()

    def authority(self, registry: ToolRegistry | None = None) -> Authority:
        """Of the workbench's tools, or of other ones."""
        authorities = self.authorities if registry is None else AuthorityCache(registry)
        return authorities.get(
            AuthorityInputs(
                mode=self.mode,
                open_modes=frozenset(ToolMode),
                environment=self.policy,
                capabilities=capabilities(
                    self.roots,
                    sandbox=BackendSelection(self.backend, "none here"),
                    images=self.images or "no image endpoint is configured",
                ),
                limits=self.limits,
            ),
        )

    async def call(
        self,
        name: str,
        arguments: dict | None = None,
        *,
        session: str = "",
        timeout: float | None = None,
        **more,
    ) -> ToolResult:
        """Call a tool; arguments by keyword, or as a dict where a name is not Python's."""
        self._count += 1
        return await self.runner.call(
            ToolCall(f"call_{self._count}", name, {**(arguments or {}), **more}, timeout),
            self.authority(),
            ToolContext(session or self.session_id, report_progress=self.progress.append),
        )

    async def ok(self, name: str, arguments: dict | None = None, **more) -> ToolResult:
        result = await self.call(name, arguments, **more)
        assert result.failure is None, result.failure
        return result

    async def refused(self, name: str, arguments: dict | None = None, **more) -> str:
        """The code of a call that must fail, whose message and next step must both say something."""
        result = await self.call(name, arguments, **more)
        assert result.failure is not None, result.stdout
        assert result.failure.message
        assert result.failure.next_action
        return result.failure.error_code.value

    async def pages(self, name: str, arguments: dict | None = None, **more) -> list[ToolResult]:
        """Every page of a call, following the cursors."""
        pages = [await self.ok(name, arguments, **more)]
        while pages[-1].next_page_cursor:
            assert len(pages) < 500, "the pages never end"
            pages.append(await self.ok(name, arguments, cursor=pages[-1].next_page_cursor, **more))
        return pages

    def narrow(self, *, read: int | None = None, write: int | None = None) -> None:
        self.policy = ToolPolicy(fs=FsPolicy(max_read_bytes=read, max_write_bytes=write))

    def write(self, path: str, content: str | bytes = "") -> Path:
        """A file made behind the tools' back, as an editor would."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def events(self) -> list[tuple[str, dict]]:
        with self.store.database.reading() as connection:
            return [
                (event.header.kind, payload_of(event)) for event in iter_stream(connection, self.session_id)
            ]

    def last_event(self) -> tuple[str, dict]:
        return self.events()[-1]

    def outside_state(self) -> dict[str, str]:
        """Everything in the folder that is not opened, to compare it later."""
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
            for path in sorted(self.outside.rglob("*"))
        }
