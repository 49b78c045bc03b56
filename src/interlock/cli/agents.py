"""`interlock agents`: lists, shows and checks the agent files of the workspace."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cyclopts import App

from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import AsJson, note, print_json, print_line, print_table, print_text

if TYPE_CHECKING:
    from interlock.agent.definitions import AgentDefinition, AgentDirectory
    from interlock.agent.front_matter import DefinitionProblem
    from interlock.policy.policy_fields import ToolPolicy

app = App(name="agents", help="List, show and check the agents of the workspace.", help_format="plaintext")


@app.command(name="list")
def list_agents(*, json: AsJson = False) -> int:
    """List the usable agents. Agents whose files have problems are named on stderr."""
    folder = _folder()
    survey = folder.survey()
    if json:
        problems = [asdict(problem) for problem in survey.problems]
        print_json({"agents": [_brief(agent) for agent in survey.agents], "problems": problems})
        return ExitCode.ok
    if survey.agents:
        rows = [[agent.name, agent.model or "", agent.description] for agent in survey.agents]
        print_table(["agent", "model", "description"], rows)
    else:
        note(f"no agents in {folder.path}")
    if broken := sorted({problem.file for problem in survey.problems}):
        note(f"not usable: {', '.join(broken)}; for the reasons, run: interlock agents check")
    return ExitCode.ok


@app.command
def show(name: str, *, json: AsJson = False) -> int:
    """Show an agent as the model receives it: without secrets and comments.

    Parameters
    ----------
    name
        The agent's name.
    """
    from interlock.config.settings import load_settings
    from interlock.redaction.factory import build_redactor

    folder = _folder()
    agent = folder.load(name)
    redact = build_redactor(load_settings()).text
    description, persona = redact(agent.description), redact(agent.persona)
    if json:
        print_json({**_brief(agent), "description": description, "persona": persona})
        return ExitCode.ok
    print_line(f"agent     {agent.name}")
    print_line(f"for       {description}")
    print_line(f"model     {agent.model or '(as the session)'}")
    print_line(f"file      {folder.path / agent.name}.md")
    print_line(f"sha256    {agent.sha256}")
    for path, value in _set_fields(agent.tools).items():
        # True only means "not tightened here": it cannot enable what another layer disables.
        if value is not True:
            print_line(f"tightens  {path}: {_as_written(value)}")
    print_line()
    print_text(persona)
    return ExitCode.ok


@app.command
def check(*, json: AsJson = False) -> int:
    """Check the file of every agent and print each problem with its line."""
    folder = _folder()
    survey = folder.survey()
    if json:
        names = [agent.name for agent in survey.agents]
        print_json({"agents": names, "problems": [_located(folder, each) for each in survey.problems]})
    else:
        for problem in survey.problems:
            print_line(f"{folder.path}/{problem}")
        count = len({problem.file for problem in survey.problems})
        note(f"usable agents: {len(survey.agents)}; files with problems: {count}")
    return ExitCode.failed if survey.problems else ExitCode.ok


def _folder() -> "AgentDirectory":
    from interlock.agent.definitions import AgentDirectory
    from interlock.config.settings import load_settings
    from interlock.wiring import build_registry, tool_names

    return AgentDirectory(load_settings().workspace_dir / "agents", tool_names(build_registry()))


def _brief(agent: "AgentDefinition") -> dict[str, Any]:
    return {
        "name": agent.name,
        "description": agent.description,
        "model": agent.model,
        "tools": _set_fields(agent.tools),
        "sha256": agent.sha256,
    }


def _located(folder: "AgentDirectory", problem: "DefinitionProblem") -> dict[str, Any]:
    return {**asdict(problem), "path": str(folder.path / problem.file)}


def _as_written(value: object) -> str:
    return ", ".join(map(str, value)) or "[]" if isinstance(value, list) else str(value).lower()


def _set_fields(policy: "ToolPolicy") -> dict[str, Any]:
    """The fields that the policy sets, keyed by their path in files and settings."""
    from interlock.policy.policy_fields import FIELDS, values_of

    return {
        f"tools.{path}": sorted(value) if isinstance(value, frozenset) else value
        for path, value in values_of(policy).items()
        if value != FIELDS[path].kind.unset
    }
