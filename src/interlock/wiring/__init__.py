"""The only place that builds objects. Read it to see the system.

`runtime.py` is one process's Interlock, `registry.py` its tools, `situation.py` what may be done with them;
`office.py`, which loads more, is who works with it.
"""

from interlock.wiring.registry import (
    build_registry,
    memory_services,
    override_modes,
    programs,
    tool_names,
)
from interlock.wiring.runtime import (
    Runtime,
    UndoReport,
    chosen_sandbox,
    dead_denials,
    local_person,
    open_runtime,
    record_missing_needs,
    record_probes,
    store_config,
    tried_nats,
    tried_sandbox,
)
from interlock.wiring.situation import NO_SANDBOX, capabilities, ceiling, missing_needs, situation_of

__all__ = [
    "NO_SANDBOX",
    "Runtime",
    "UndoReport",
    "build_registry",
    "capabilities",
    "ceiling",
    "chosen_sandbox",
    "dead_denials",
    "local_person",
    "memory_services",
    "missing_needs",
    "open_runtime",
    "override_modes",
    "programs",
    "record_missing_needs",
    "record_probes",
    "situation_of",
    "store_config",
    "tool_names",
    "tried_nats",
    "tried_sandbox",
]
