"""Finishes what a process began that ended too early: erasing what was kept of a deleted session's files.

The rows of a session go first, in one transaction; its files go after that, and nobody could ask for that
again. On other machines that share the store they go here as well.
"""

from interlock.events.chain import now_us
from interlock.infra.threads import WorkThreads
from interlock.sandbox.kept import KeptVersions
from interlock.tools.shell.outputs import KeptOutputs
from interlock.wiring.runtime import MAX_OUTPUT_BYTES, Runtime

DELETED_SINCE = "SELECT id FROM sessions WHERE deleted_us > ?"
# Whoever works is started more often than that.
LATELY_US = 90 * 86_400 * 1_000_000


async def finish_erasures(runtime: Runtime) -> None:
    settings, since = runtime.settings, now_us() - LATELY_US
    rows = await runtime.database.read(lambda db: db.query(DELETED_SINCE, (since,)))
    kept = KeptVersions(settings.state_dir / "kept", max_bytes=settings.tool.kept_bytes)
    outputs = KeptOutputs(settings.state_dir / "outputs", max_bytes=MAX_OUTPUT_BYTES)

    def forget() -> None:
        for (session_id,) in rows:
            kept.forget(str(session_id))
            outputs.forget(str(session_id))

    if rows:
        await WorkThreads("interlock-erasing").start(forget)
