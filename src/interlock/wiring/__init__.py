"""The only place that builds objects. Read it to see the system.

`runtime.py` builds one process's Interlock, `tool_services.py` its tools, `authority_inputs.py` their
permissions; `agents.py`, which imports more, builds what runs tasks.
"""

from interlock.wiring.authority_inputs import (
    NO_SANDBOX,
    build_authority_inputs,
    capabilities,
    ceiling,
    missing_requirements,
    read_command_rules,
)
from interlock.wiring.runtime import (
    Runtime,
    UndoReport,
    check_nats,
    local_actor,
    open_runtime,
    probe_sandbox,
    record_missing_requirements,
    record_probes,
    select_sandbox,
    store_config,
    unmatchable_denials,
)
from interlock.wiring.tool_services import (
    build_registry,
    memory_services,
    override_modes,
    programs,
    tool_names,
)

__all__ = [
    "NO_SANDBOX",
    "Runtime",
    "UndoReport",
    "build_authority_inputs",
    "build_registry",
    "capabilities",
    "ceiling",
    "check_nats",
    "local_actor",
    "memory_services",
    "missing_requirements",
    "open_runtime",
    "override_modes",
    "probe_sandbox",
    "programs",
    "read_command_rules",
    "record_missing_requirements",
    "record_probes",
    "select_sandbox",
    "store_config",
    "tool_names",
    "unmatchable_denials",
]
