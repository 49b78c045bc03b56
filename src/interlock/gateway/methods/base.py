"""The definition of a method: its name, parameters and function."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Protocol, TypeVar

from pydantic import Field

from interlock.core.aio import KeyedLock
from interlock.db.driver import DbConnection
from interlock.gateway.auth import ClientIdentity
from interlock.gateway.protocol import Frame, MethodParams, RequestId
from interlock.gateway.services import GatewayServices, Json
from interlock.runtime.task_rows import read_open_statuses
from interlock.sessions.manager import SessionManager
from interlock.sessions.models import Session

Given = TypeVar("Given", bound=MethodParams)
Result = TypeVar("Result")

# Generated ids contain nothing else, and not every store can look up arbitrary text.
Identifier = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[!-~]+$")]
Count = Annotated[int, Field(ge=1, le=1000)]
Seq = Annotated[int, Field(ge=0, lt=2**62)]


# Messages are read a few at a time, until one frame is full.
PAGE = 20
MAX_PAGE_CHARS = 250_000


class MethodCaller(Protocol):
    """The socket that sent the request."""

    who: ClientIdentity
    subscriptions: set[str]
    # Subscription changes of one session are made in the order of the requests.
    turns: KeyedLock

    def deliver(self, frame: Frame) -> None: ...

    async def ready(self) -> None: ...

    def expect(self, task_id: str, request_id: RequestId) -> None: ...


@dataclass(frozen=True, slots=True)
class MethodCall(Generic[Given]):
    services: GatewayServices
    caller: MethodCaller
    request_id: RequestId
    params: Given

    @property
    def who(self) -> str:
        return self.caller.who.name

    @property
    def credential_id(self) -> str:
        """The credential that starts things here; revoking it cancels them."""
        return self.caller.who.credential_id


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    params: type[MethodParams]
    run: Callable[[MethodCall[Any]], Awaitable[Json]]
    # All other methods check the store for a revoked credential, however recent the revocation.
    only_reads: bool = False
    # Results from the log are redacted already; all others are redacted again.
    is_stored: bool = False
    # May read much of the store.
    is_heavy: bool = False
    # Available only if the operator opened modes.
    needs_modes: bool = False


async def run_to_completion(work: Coroutine[Any, Any, Result]) -> Result:
    """Run work of several steps to its end, even if the client disconnects in between."""
    doing = asyncio.create_task(work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait({doing})
        # The client is gone. Retrieve the exception so that asyncio does not log it.
        if not doing.cancelled():
            doing.exception()
        raise


def listed_sessions(
    connection: DbConnection, manager: SessionManager, sessions: Sequence[Session]
) -> list[Json]:
    """Sessions as a list shows them: each with its state."""
    work = read_open_statuses(connection, [session.id for session in sessions])
    return [_session_json(manager, session) | {"work": work.get(session.id)} for session in sessions]


def session_json(services: GatewayServices, session: Session) -> Json:
    return _session_json(services.sessions, session)


def _session_json(manager: SessionManager, session: Session) -> Json:
    return {
        "id": session.id,
        "kind": session.kind,
        "title": session.title,
        "mode": manager.mode_of(session).value,
        "stored_mode": session.stored_mode,
        "opened_by": session.opened_by,
        "group": session.group.value,
        "created_us": session.created_us,
        "updated_us": session.updated_us,
        "last_seq": session.last_seq,
        "archived": session.archived,
        "agent": session.agent,
        "model": session.model,
    }
