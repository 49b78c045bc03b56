"""Builds the credential service, for commands that need nothing else of the gateway."""

from interlock.gateway.auth import CredentialService
from interlock.wiring.runtime import Runtime


def open_credentials(runtime: Runtime) -> CredentialService:
    return CredentialService(runtime.database, runtime.log, runtime.redactor)
