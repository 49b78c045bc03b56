"""All tables whose rows follow from events; each package owns its own."""

from functools import partial

from interlock.gateway.credentials import CREDENTIALS
from interlock.log.projections import Projections
from interlock.log.verify.event_log import verify as verify_log
from interlock.sessions.runtime_settings import SETTINGS_VERSIONS

PROJECTIONS = Projections((SETTINGS_VERSIONS, CREDENTIALS))

# Checks the log, and every row of these tables against it.
verify = partial(verify_log, projections=PROJECTIONS)
