"""All methods of the WebSocket protocol by name. One module per kind of object."""

import asyncio
from collections.abc import Awaitable, Callable

from interlock.gateway.auth import ClientIdentity
from interlock.gateway.methods import chat, mcp, policy, sessions, tasks_and_events, workflow_runs
from interlock.gateway.methods.base import Method, MethodCall, MethodCaller
from interlock.gateway.protocol import (
    GatewayErrorCode,
    GatewayRequest,
    RequestError,
    parse_params,
    public_error,
)
from interlock.gateway.services import GatewayServices, Json

_KINDS = (sessions, chat, policy, tasks_and_events, workflow_runs, mcp)
ALL = {method.name: method for kind in _KINDS for method in kind.METHODS}

__all__ = ["ALL", "Dispatcher", "Method"]

# Concurrent calls of methods that read much of the store: others must not wait behind them.
MAX_HEAVY = 2
REVOKED = "the token or browser login that sent this was revoked or logged out; nothing was changed"


class Dispatcher:
    """Finds a method, validates its parameters, and calls it."""

    def __init__(
        self, services: GatewayServices, is_live: Callable[[ClientIdentity], Awaitable[bool]]
    ) -> None:
        self._services = services
        self._is_live = is_live
        self._looking = asyncio.Semaphore(MAX_HEAVY)
        can_switch = len(services.about.open_modes) > 1
        self.methods = {
            name: method for name, method in ALL.items() if can_switch or not method.needs_modes
        }

    async def __call__(self, caller: MethodCaller, request: GatewayRequest) -> object:
        method = self.methods.get(request.method)
        if method is None:
            raise RequestError(GatewayErrorCode.METHOD_NOT_FOUND, self._not_found(request.method))
        try:
            result = await self._run(method, caller, request)
        except Exception as error:
            if (told := public_error(error)) is None:
                raise
            # The message may quote the request, and so a secret.
            code, sentence = told
            raise RequestError(code, self._services.redactor.text(sentence)) from None
        if request.method == "server.info":
            result["methods"] = sorted(self.methods)
        return result if method.is_stored else self._services.redactor.value(result)

    async def _run(self, method: Method, caller: MethodCaller, request: GatewayRequest) -> Json:
        if not method.only_reads and not await self._is_live(caller.who):
            raise RequestError(GatewayErrorCode.REVOKED, REVOKED)
        params = parse_params(method.params, request.params, request.id)
        call = MethodCall(self._services, caller, request.id, params)
        if not method.is_heavy:
            return await method.run(call)
        async with self._looking:
            return await method.run(call)

    def _not_found(self, name: str) -> str:
        if name in ALL:
            return f"{name} is not available: the operator has not opened any other mode"
        return "unknown method; server.info lists the methods"
