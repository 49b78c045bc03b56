"""What happens to a fleet while it works, at random but from a seed; each kind at least once."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.e2e.fleet.fleet import Fleet, Member
from tests.harness.external_services import NatsServer, PostgresServer


@dataclass
class Mischief:
    fleet: Fleet
    dice: random.Random
    lease_seconds: float
    postgres: PostgresServer | None = None
    nats: NatsServer | None = None
    # Between two of them.
    pause_seconds: float = 1.0
    done: list[str] = field(default_factory=list)
    is_over: bool = False

    @property
    def deeds(self) -> list[Callable[[], Awaitable[None]]]:
        deeds = [self.kill_worker, self.freeze_worker]
        deeds += [self.kill_gateway, self.freeze_gateway]
        if self.postgres is not None:
            deeds.append(self.restart_postgres)
        if self.nats is not None:
            deeds += [self.restart_nats, self.wipe_nats]
        return deeds

    async def run(self) -> None:
        """Until it is over. Each deed has its turn before one comes again."""
        waiting = self.dice.sample(self.deeds, k=len(self.deeds))
        # What is left when all is done happens too, to processes that have nothing to do.
        while not self.is_over or waiting:
            deed = waiting.pop() if waiting else self.dice.choice(self.deeds)
            if deed == self.wipe_nats and self.wipe_nats.__name__ in self.done:
                continue
            await deed()
            self.done.append(deed.__name__)
            await asyncio.sleep(self.pause_seconds * (0.5 + self.dice.random()))

    async def kill_worker(self) -> None:
        await self._start_again(self.dice.choice(self.fleet.workers))

    async def kill_gateway(self) -> None:
        await self._start_again(self.dice.choice(self.fleet.gateways))

    async def freeze_worker(self) -> None:
        """Longer than its leases last: when it wakes up, others have its sessions."""
        await self._freeze(self.dice.choice(self.fleet.workers), 1.5 * self.lease_seconds)

    async def freeze_gateway(self) -> None:
        await self._freeze(self.dice.choice(self.fleet.gateways), 1.0)

    async def restart_postgres(self) -> None:
        await asyncio.to_thread(self.postgres.restart, self.dice.choice(["immediate", "fast"]))

    async def restart_nats(self) -> None:
        await asyncio.to_thread(self.nats.stop)
        await asyncio.sleep(self.dice.random())
        await asyncio.to_thread(self.nats.start)

    async def wipe_nats(self) -> None:
        await asyncio.to_thread(self.nats.stop)
        self.nats.wipe()
        await asyncio.to_thread(self.nats.start)

    async def _start_again(self, member: Member) -> None:
        await asyncio.to_thread(member.kill)
        await asyncio.sleep(self.dice.random())
        member.start()

    async def _freeze(self, member: Member, seconds: float) -> None:
        member.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            member.signal(signal.SIGCONT)
