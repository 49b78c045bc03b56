"""Permissions: stored settings, the policy matrix, the evaluation of one call, and the agents."""

from typing import Annotated, Any

import orjson
from pydantic import Field

from interlock.gateway.methods.base import Identifier, Method, MethodCall
from interlock.gateway.methods.sessions import mode_of
from interlock.gateway.protocol import MethodParams, NoParams
from interlock.gateway.services import GatewayServices, Json
from interlock.policy.policy_fields import NO_RESTRICTION, ToolPolicy, form_description, to_document
from interlock.sessions.runtime_settings import StoredSettings


class SettingsPatchParams(MethodParams):
    patch: dict[str, Any]


class PolicyMatrixParams(MethodParams):
    session_id: Identifier | None = None


class PolicyExplainParams(MethodParams):
    tool_name: Annotated[str, Field(min_length=1, max_length=200)]
    mode: str
    arguments: dict[str, Any] | None = None
    session_id: Identifier | None = None


async def get_settings(call: MethodCall[NoParams]) -> Json:
    current = await call.services.stored_settings.current()
    return {
        "version": current.version,
        "settings": to_document(current.settings),
        "defaults": to_document(StoredSettings()),
        "ceiling": {"tools": to_document(call.services.about.ceiling)},
        "form": form_description(),
    }


async def preview_settings(call: MethodCall[SettingsPatchParams]) -> Json:
    would_be = await call.services.stored_settings.preview(call.params.patch)
    matrix = await call.services.matrix(NO_RESTRICTION, would_be)
    return {"settings": to_document(would_be), "matrix": matrix}


async def update_settings(call: MethodCall[SettingsPatchParams]) -> Json:
    stored = await call.services.stored_settings.update(call.params.patch, who=call.who)
    return {"version": stored.version, "settings": to_document(stored.settings)}


async def matrix(call: MethodCall[PolicyMatrixParams]) -> Json:
    policy = await _policy_of(call.services, call.params.session_id)
    return await call.services.matrix(policy, None)


async def explain(call: MethodCall[PolicyExplainParams]) -> Json:
    params = call.params
    policy = await _policy_of(call.services, params.session_id)
    arguments = None if params.arguments is None else orjson.dumps(params.arguments).decode()
    session_id = params.session_id or ""
    return await call.services.explain(
        params.tool_name, mode_of(params.mode), arguments, policy, session_id
    )


async def list_agents(call: MethodCall[NoParams]) -> Json:
    services = call.services
    survey = await services.threads.start(services.agents.survey)
    shown: list[Json] = [
        {"name": agent.name, "description": agent.description, "model": agent.model, "problem": None}
        for agent in survey.agents
    ]
    faulty: dict[str, list[str]] = {}
    for problem in survey.problems:
        faulty.setdefault(problem.file, []).append(str(problem))
    shown += [
        {"name": name.removesuffix(".md"), "description": "", "model": None, "problem": "; ".join(each)}
        for name, each in faulty.items()
    ]
    return {"agents": shown}


async def _policy_of(services: GatewayServices, session_id: str | None) -> ToolPolicy:
    """The tool policy of the session's agent."""
    if session_id is None:
        return NO_RESTRICTION
    name = (await services.sessions.get(session_id)).agent
    if name is None:
        return NO_RESTRICTION
    return (await services.threads.start(lambda: services.agents.load(name))).tools


METHODS = (
    Method("settings.get", NoParams, get_settings, only_reads=True),
    Method("settings.preview", SettingsPatchParams, preview_settings, only_reads=True),
    Method("settings.update", SettingsPatchParams, update_settings),
    Method("policy.matrix", PolicyMatrixParams, matrix, only_reads=True),
    Method("policy.explain", PolicyExplainParams, explain, only_reads=True),
    Method("agents.list", NoParams, list_agents, only_reads=True),
)
