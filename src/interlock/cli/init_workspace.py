"""`interlock init`: creates a workspace."""

from pathlib import Path

from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import AsJson, note, print_json, print_line


def init(*, workspace: Path | None = None, json: AsJson = False) -> int:
    """Create the workspace: its directories, and the files that describe you and your rules to the model.

    Existing files are not changed.

    Parameters
    ----------
    workspace
        The directory, instead of WORKSPACE_DIR.
    """
    from interlock.agent.workspace_template import CreationStatus, create_workspace_files
    from interlock.config.settings import load_settings

    configured = load_settings().workspace_dir
    folder = configured if workspace is None else _checked(workspace)
    steps = create_workspace_files(folder)
    if json:
        rows = [
            {"path": str(step.path), "state": step.found.value, "detail": step.detail} for step in steps
        ]
        print_json({"workspace": str(folder), "steps": rows})
    else:
        for step in steps:
            print_line(f"{step.found.value:<7} {step.path}" + (f"  ({step.detail})" if step.detail else ""))
        if folder != configured:
            note(f"to use it: export WORKSPACE_DIR={folder}")
    return ExitCode.failed if any(step.found is CreationStatus.failed for step in steps) else ExitCode.ok


def _checked(given: Path) -> Path:
    """The absolute path, checked by the rules of WORKSPACE_DIR: outside every agent's reach."""
    from pydantic import ValidationError

    from interlock.config.settings import Settings
    from interlock.core.errors import BadUsage

    try:
        return Settings(workspace_dir=given).workspace_dir
    except ValidationError as error:
        reasons = [problem["msg"].removeprefix("Value error, ") for problem in error.errors()]
        raise BadUsage(f"--workspace: {'; '.join(reasons)}") from None
