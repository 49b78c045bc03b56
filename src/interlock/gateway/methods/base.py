"""What a method is: a name, what it takes, and a function."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Protocol, TypeVar

from pydantic import Field

from interlock.core.keyed_lock import KeyedLock
from interlock.gateway.auth import ClientIdentity
from interlock.gateway.protocol import Frame, MethodParams, RequestId
from interlock.gateway.services import GatewayServices, Json
from interlock.sessions.models import Session

Given = TypeVar("Given", bound=MethodParams)
Result = TypeVar("Result")

# No id that is given out has anything else in it, and not every store could look for everything.
Identifier = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[!-~]+$")]
Count = Annotated[int, Field(ge=1, le=1000)]
Seq = Annotated[int, Field(ge=0, lt=2**62)]


# What was said is read a few messages at a time, until there is enough for one frame.
PAGE = 20
MAX_PAGE_CHARS = 250_000


class MethodCaller(Protocol):
    """The socket that a request came by."""

    who: ClientIdentity
    subscriptions: set[str]
    # What it asks about one session's following is done in the order it was asked.
    turns: KeyedLock

    def tell(self, frame: Frame) -> None: ...

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
        """What is started here ends when this is revoked."""
        return self.caller.who.credential_id


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    params: type[MethodParams]
    run: Callable[[MethodCall[Any]], Awaitable[Json]]
    # All others are refused to a token or cookie that was revoked, however fresh that is.
    only_reads: bool = False
    # What comes from the log has no secrets in it; everything else is looked through once more.
    is_stored: bool = False
    # It may look at much of the store.
    is_heavy: bool = False
    # Only there when the operator opened modes.
    needs_modes: bool = False


async def run_to_completion(work: Coroutine[Any, Any, Result]) -> Result:
    """For what has several steps: a client that goes away between them does not leave it half done."""
    doing = asyncio.create_task(work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait({doing})
        # What went wrong with it, nobody is there to hear.
        if not doing.cancelled():
            doing.exception()
        raise


def session_json(services: GatewayServices, session: Session) -> Json:
    return {
        "id": session.id,
        "kind": session.kind,
        "title": session.title,
        "mode": services.sessions.mode_of(session).value,
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
