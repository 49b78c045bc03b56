"""Runs jobs without confinement, if the operator set `TOOL_SANDBOX=off`.

A job can do whatever the server's account can. What remains: a complete environment, no inherited
descriptors, its own session, limits, and the end of all that it started, as long as it does not attack its
monitor.
"""

import errno
from contextlib import ExitStack
from typing import ClassVar

from interlock.sandbox.jobs import Job
from interlock.sandbox.subprocess_backend import CannotStart, LaunchSpec, SubprocessBackend


class UnconfinedBackend(SubprocessBackend):
    NAME: ClassVar[str] = "off"

    @property
    def name(self) -> str:
        return self.NAME

    def _plan(self, job: Job, opened: ExitStack) -> LaunchSpec:  # noqa: ARG002 - nothing is opened
        for root in job.profile.readable_roots:
            if not root.exists():
                raise CannotStart(errno.ENOENT, f"opening {root}")
        return LaunchSpec(
            order={"is_confined": False, "folder": None, "mounted": [], "metadata": "", "writable": []}
        )
