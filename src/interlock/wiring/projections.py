"""All tables whose rows follow from events, each described by the package that owns it."""

from functools import partial

from interlock.channels.telegram.erasure import ERASE_QUESTIONS
from interlock.gateway.credentials import CREDENTIALS
from interlock.log.projections import Projections
from interlock.log.usage import USAGE
from interlock.log.verify.event_log import verify as verify_log
from interlock.questions.rows import QUESTIONS
from interlock.runtime.task_rows import TASKS
from interlock.sessions.projection import SESSIONS
from interlock.sessions.runtime_settings import SETTINGS_VERSIONS
from interlock.tools.mcp.repository import MCP_SERVERS, MCP_TOOLS
from interlock.workflow.run_rows import RUN_NODES, RUNS

PROJECTIONS = Projections(
    (
        SETTINGS_VERSIONS,
        CREDENTIALS,
        SESSIONS,
        QUESTIONS,
        TASKS,
        RUNS,
        RUN_NODES,
        MCP_SERVERS,
        MCP_TOOLS,
        USAGE,
    )
)

# Erase content of a session in rows that follow from no event.
ERASE_SESSION = (ERASE_QUESTIONS,)

# Checks the log, and every row of these tables against it.
verify = partial(verify_log, projections=PROJECTIONS)
