"""Everything that can be asked for over a socket, by name. One module for each kind of thing."""

from interlock.gateway.methods import chat, facts, rules, sessions
from interlock.gateway.methods.base import Call, Caller, Method
from interlock.gateway.protocol import Code, Request, RequestError, read_params
from interlock.gateway.services import Services

ALL = {method.name: method for method in (*sessions.METHODS, *chat.METHODS, *rules.METHODS, *facts.METHODS)}

__all__ = ["ALL", "Dispatcher", "Method"]


class Dispatcher:
    """Finds the method, checks what it is given, and calls it."""

    def __init__(self, services: Services) -> None:
        self._services = services
        can_switch = len(services.about.open_modes) > 1
        self.methods = {
            name: method for name, method in ALL.items() if can_switch or not method.needs_modes
        }

    async def __call__(self, caller: Caller, request: Request) -> object:
        method = self.methods.get(request.method)
        if method is None:
            raise RequestError(Code.METHOD_NOT_FOUND, self._not_found(request.method))
        params = read_params(method.params, request.params, request.id)
        result = await method.run(Call(self._services, caller, request.id, params))
        if request.method == "server.info":
            result["methods"] = sorted(self.methods)
        return result if method.is_stored else self._services.redactor.value(result)

    def _not_found(self, name: str) -> str:
        if name in ALL:
            return f"{name} is not open here: the operator has opened no other mode"
        return "there is no such method; server.info lists them"
