"""Who may come in, for commands that need nothing else of the gateway."""

from interlock.gateway.auth import Credentials
from interlock.wiring.runtime import Runtime


def open_credentials(runtime: Runtime) -> Credentials:
    return Credentials(runtime.database, runtime.log, runtime.redactor)
