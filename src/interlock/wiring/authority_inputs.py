"""Builds the authority inputs: the operator's settings as a policy, and this machine's capabilities."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from interlock.config.image import IMAGE_PREFIX, ImageEndpoint, image_endpoint
from interlock.config.modes import ToolMode
from interlock.config.policy_variables import policy_values
from interlock.config.protected_names import PROTECTED_NAMES
from interlock.config.settings import Settings
from interlock.config.sources import given_variable_name
from interlock.config.tool import TOOL_PREFIX, ToolSettings
from interlock.core.errors import ConfigurationError
from interlock.policy.authority import AuthorityCache
from interlock.policy.authority_inputs import AuthorityInputs, CallLimits, Capabilities
from interlock.policy.policy_fields import ToolPolicy, policy_of
from interlock.policy.verdict import DeniedTool, PolicyLayer
from interlock.sandbox.backend_selection import BackendSelection
from interlock.sandbox.programs import PROGRAMS, locate
from interlock.tools.builtins.complete_step import NEED as STEP
from interlock.tools.builtins.delegate import NEED as CHILDREN

# Without a probed sandbox, no tool that needs one is offered.
NO_SANDBOX = BackendSelection(None, "no sandbox was probed")

# The capabilities of a running agent, and of a step of a workflow.
AT_WORK = frozenset({CHILDREN})
IN_A_STEP = frozenset({CHILDREN, STEP})

# Capabilities of some tasks only: those that have one offer it.
_OF_TASKS = {
    STEP: "it is only for the steps of a workflow",
    CHILDREN: "only a running agent can delegate, at most two levels deep",
}


def build_authority_inputs(
    settings: Settings,
    open_modes: frozenset[ToolMode],
    roots: tuple[Path, ...] | None,
    sandbox: BackendSelection,
) -> AuthorityInputs:
    tool = settings.tool
    here = replace(
        capabilities(
            roots,
            tool.protected_names,
            sandbox=sandbox,
            images=image_endpoint(settings.image, settings.openai),
        ),
        reads_hard_links=tool.hard_links,
        readable_paths=tool.readable_paths,
        denied_commands=tool.bash_denylist,
        command_rules=read_command_rules(tool),
    )
    return AuthorityInputs(
        mode=ToolMode.chat_safe,
        open_modes=open_modes,
        environment=ceiling(settings),
        capabilities=here,
        limits=_call_limits(tool),
    )


def read_command_rules(tool: ToolSettings) -> tuple[tuple[str, str], ...]:
    """The operator's file of rules about commands. Raises `ConfigurationError` if a rule is wrong."""
    if tool.command_rules is None:
        return ()
    # The grammar and the rules are a large part of the program.
    from interlock.commands.rules import load_rules

    name = given_variable_name("TOOL_COMMAND_RULES")
    try:
        text = tool.command_rules.read_text()
        load_rules(text, tool.command_rules.name)
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"{name}: '{tool.command_rules}' cannot be read: {error}") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{name}: {error}") from error
    return ((tool.command_rules.name, text),)


def ceiling(settings: Settings) -> ToolPolicy:
    """The operator's environment as the first policy layer."""
    return policy_of(policy_values({TOOL_PREFIX: settings.tool, IMAGE_PREFIX: settings.image}))


def capabilities(
    roots: tuple[Path, ...] | None,
    protected_names: tuple[str, ...] = PROTECTED_NAMES,
    *,
    sandbox: BackendSelection = NO_SANDBOX,
    images: ImageEndpoint | str = "no image endpoint is configured",
) -> Capabilities:
    """What works here, and for everything that does not, why and what would help."""
    present, missing = {"person"}, dict(_OF_TASKS)
    if isinstance(images, ImageEndpoint):
        present.add("endpoint:images")
    else:
        missing["endpoint:images"] = images
    if roots:
        present.add("roots")
    else:
        missing["roots"] = "no folder is open (--root, or TOOL_ALLOWED_ROOTS)"
    if sandbox.is_confined:
        present |= {"sandbox", "sandbox:walls"}
    elif sandbox.backend is not None:
        present.add("sandbox")
        missing["sandbox:walls"] = f"it cannot be kept from writing ({sandbox.reason})"
    else:
        missing["sandbox"] = f"commands cannot be confined ({sandbox.reason})"
    for program in PROGRAMS:
        if locate(program, roots or ()) is not None:
            present.add(program.capability)
        else:
            missing[program.capability] = f"the program {program.names[0]} is missing; {program.hint}"
    return Capabilities(
        present=frozenset(present),
        of_tasks=frozenset({"person", *_OF_TASKS}),
        missing_reasons=tuple(missing.items()),
        roots=roots or (),
        protected_names=protected_names,
        sandbox=sandbox.backend.name if sandbox.backend is not None else "none",
    )


class MissingRequirement(NamedTuple):
    """A missing requirement of this machine, its reason, and the tools it disables in the open modes."""

    need: str
    reason: str
    tools: tuple[str, ...]


def missing_requirements(
    authorities: AuthorityCache, authority_inputs: AuthorityInputs
) -> list[MissingRequirement]:
    """The missing programs and the missing sandbox, each with the tools that cannot be used.

    A missing program is listed for every tool that no policy denies, the sandbox only for tools that could
    be used otherwise: it is probed only if a directory is open. What the operator left out by choice (an
    endpoint, TOOL_SANDBOX=off) is not missing.
    """
    here = authority_inputs.capabilities
    missing = {
        need: reason
        for need, reason in here.missing_reasons
        if need == "sandbox" or need.startswith("program:")
    }
    tools: dict[str, set[str]] = {need: set() for need in missing}
    for mode in ToolMode if missing else ():
        authority = authorities.get(replace(authority_inputs, mode=mode, open_modes=frozenset(ToolMode)))
        for name, verdict in authority.verdicts.items():
            if not isinstance(verdict, DeniedTool) or verdict.layer is not PolicyLayer.capability:
                continue
            # Without a sandbox there is no write confinement either.
            needs = authority.entries[name].tool.needs - here.present - {"sandbox:walls"}
            usable_otherwise = mode in authority_inputs.open_modes and needs <= missing.keys()
            for need in needs & missing.keys():
                if usable_otherwise or need.startswith("program:"):
                    tools[need].add(name)
    return [
        MissingRequirement(need, reason, tuple(sorted(tools[need])))
        for need, reason in missing.items()
        if tools[need]
    ]


def _call_limits(tool: ToolSettings) -> CallLimits:
    return CallLimits(
        timeout_seconds=tool.timeout_seconds,
        max_timeout_seconds=tool.max_timeout_seconds,
        max_output_lines=tool.max_output_lines,
        max_output_bytes=tool.max_output_bytes,
    )
