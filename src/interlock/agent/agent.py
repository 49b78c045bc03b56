"""The loop: ask the model, run what it asks for, give it the results, until it answers or must stop."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from interlock.agent.asking import Asking, Question
from interlock.agent.breaker import Breakers
from interlock.agent.calling import Calling, CallsEnd, TurnScope
from interlock.agent.control import TaskControl
from interlock.agent.conversation import Conversation
from interlock.agent.events import AgentEvent
from interlock.agent.limits import ControlLimits
from interlock.agent.prompt_builder import PromptBuilder
from interlock.agent.recording import Assignment, Recording
from interlock.agent.retries import Retries
from interlock.events.log import EventLog
from interlock.gates.runner import ToolRunner
from interlock.models.messages import system_message
from interlock.models.provider import ModelError, ModelRequest, Provider, Reply
from interlock.redaction.redactor import Redactor
from interlock.session.manager import SessionManager
from interlock.session.models import Role

ProviderOf = Callable[[str], Awaitable[Provider]]


@dataclass(frozen=True, slots=True)
class AgentServices:
    """What the loop needs of the world."""

    sessions: SessionManager
    log: EventLog
    runner: ToolRunner
    prompts: PromptBuilder
    redactor: Redactor
    provider_of: ProviderOf
    breakers: Breakers
    limits: ControlLimits
    context_tokens: int


class AgentLoop:
    """Everything it does is on disk before it is told, except the text of a running answer."""

    def __init__(self, services: AgentServices) -> None:
        self._services = services

    async def handle_message(self, session_id: str, content: str) -> AsyncGenerator[AgentEvent]:
        """Take a person's message and work on it until it is answered. The mode is read here, and once."""
        sessions = self._services.sessions
        mode = await sessions.get_mode(session_id)
        await sessions.append_message(session_id, Role.user, content)
        async with aclosing(self.work(Assignment(session_id, mode))) as events:
            async for event in events:
                yield event

    async def work(self, assignment: Assignment) -> AsyncGenerator[AgentEvent]:
        """Work on what a session's last message asks for."""
        here = self._services
        prompt = await here.prompts.prepare(assignment.session_id, assignment.mode)
        provider = await here.provider_of(assignment.session_id)
        conversation = Conversation(await here.sessions.transcript(assignment.session_id))
        control = TaskControl(here.limits, model=provider.name)
        recording = Recording(here.sessions, here.log, assignment, conversation)
        asking = Asking(provider, here.redactor, here.breakers, control, recording.note)
        calling = Calling(here.runner, here.sessions, here.redactor, here.breakers, control, recording.note)
        await recording.begin(prompt.inputs.agent, provider.name)
        reply: Reply | None = None
        end: CallsEnd | None = None
        try:
            while (stop := control.before_turn()) is None:
                prompt = await here.prompts.renew(prompt)
                recording.compact(here.context_tokens)
                turn = await recording.begin_turn(control.turns, provider.name, prompt.authority)
                question = Question(
                    control.turns, _request(prompt.text, conversation, turn, recording, control.turns)
                )
                began = asyncio.get_running_loop().time()
                async with aclosing(asking.ask(question, Retries(here.limits))) as events:
                    async for event in events:
                        yield event
                reply, usage = recording.keep(question, turn, began)
                control.reply_received(usage)
                end = CallsEnd()
                async with aclosing(calling.run(reply.tool_calls, turn, end)) as events:
                    async for event in events:
                        yield event
                yield await recording.end_turn(question.turn, reply, usage, end)
                if end.waiting:
                    return
                if stop := end.stop:
                    break
                if not reply.tool_calls:
                    break
            yield await recording.end(control, stop, reply)
        except ModelError as error:
            yield await recording.fail(control, error)
        finally:
            await recording.close(end)


def _request(
    prompt: str, conversation: Conversation, turn: TurnScope, recording: Recording, number: int
) -> ModelRequest:
    authority = turn.authority
    return ModelRequest(
        messages=(system_message(prompt), *conversation.encoded()),
        tools=authority.schemas if authority.exposed else b"",
        tool_choice=recording.tool_choice(number, authority),
    )
