"""Prepares the redaction rules when the package is built or installed."""

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PrepareRules(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatch's own
        runpy.run_path(str(Path(self.root, "src/interlock/redaction/prepared_rules.py")))[
            "write_prepared"
        ]()
