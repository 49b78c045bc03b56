"""Resolves the kind, agent, model and Authority of a session: the inputs of its prompts and calls."""

from interlock.agent.definitions import AgentDefinition, AgentDirectory
from interlock.agent.loop import AgentServices
from interlock.agent.prompt_builder import PromptInputs
from interlock.agent.subagents import SubagentLookups, SubagentRunner
from interlock.config.modes import ToolMode, stricter
from interlock.core.errors import ModeNotOpen
from interlock.core.threads import DaemonThreadPool
from interlock.models.configured_models import ConfiguredModels
from interlock.policy.authority import Authority
from interlock.policy.authority_inputs import NO_SWITCHING, ModeSwitching
from interlock.policy.delegation import DelegatedAuthority, modes_open_to_step, step_mode
from interlock.policy.policy_fields import NO_RESTRICTION
from interlock.policy.verdict import ModeSwitchMethod
from interlock.sessions.models import Session, SessionKind
from interlock.wiring.authority_inputs import AT_WORK, IN_A_STEP
from interlock.wiring.runtime import Runtime
from interlock.workflow.run_rows import ActiveStep
from interlock.workflow.step_prompt import node_brief, run_directive

# The prefix of Telegram users' names, before their ids.
TELEGRAM = "telegram:"


class PromptInputsResolver:
    """`someone_can_answer`: whether questions of the agents here reach a person.

    `way` is how the users of this process switch a session's mode; None if users are on other processes.
    """

    def __init__(
        self,
        runtime: Runtime,
        agents: AgentDirectory,
        models: ConfiguredModels,
        *,
        someone_can_answer: bool,
        way: ModeSwitchMethod | None,
    ) -> None:
        self._runtime = runtime
        self._agents = agents
        self._models = models
        self._someone_can_answer = someone_can_answer
        self._way = way
        self._threads = DaemonThreadPool("interlock-agents")

    async def begin(
        self, session_id: str, mode: ToolMode, pin: tuple[str, str] | None, who: str
    ) -> PromptInputs:
        session = await self._runtime.sessions.get(session_id)
        kind = SessionKind(session.kind)
        if kind is SessionKind.run and (step := await self._runtime.runs.at_work(session_id)):
            _refuse_less(step, mode)
            return await self._of_step(session, step)
        agent = await self._agent(session.agent, pin)
        return PromptInputs(kind, agent, self._model(session, agent), switching=self._switching(who))

    async def authority(self, session_id: str, mode: ToolMode, inputs: PromptInputs) -> Authority:
        return await self._runtime.authority(
            mode,
            session_id=session_id,
            agent=inputs.agent.tools if inputs.agent else NO_RESTRICTION,
            node=inputs.node,
            someone_can_answer=self._someone_can_answer,
            open_modes=self._open_modes(inputs.ceiling, mode),
            offered=IN_A_STEP if inputs.run_directive else AT_WORK,
            switching=inputs.switching,
        )

    def _open_modes(self, ceiling: ToolMode | None, mode: ToolMode) -> frozenset[ToolMode]:
        opened = self._runtime.authority_inputs.open_modes
        return opened if ceiling is None else modes_open_to_step(opened, ceiling, mode)

    def _switching(self, who: str) -> ModeSwitching:
        """How the person whose task it is can switch the mode.

        The modes that this process opened apply to its own users. Of other processes only the modes opened
        by the settings are known.
        """
        is_telegram = who.startswith(TELEGRAM)
        way = ModeSwitchMethod.telegram if is_telegram else ModeSwitchMethod.page
        if self._way in {ModeSwitchMethod.terminal, ModeSwitchMethod.command} and not is_telegram:
            way = self._way
        settings = self._runtime.settings
        modes = (
            self._runtime.authority_inputs.open_modes if way is self._way else settings.session.open_modes
        )
        operators = {f"{TELEGRAM}{user}" for user in settings.telegram.operators}
        return ModeSwitching(
            ModeSwitchMethod.operators if is_telegram and who not in operators else way, modes
        )

    async def _of_step(self, session: Session, step: ActiveStep) -> PromptInputs:
        """The step's agent first, then the workflow's, then the session's; as pinned when the run began."""
        name = step.agent or session.agent
        pinned = step.run_state.run.agents.get(name or "")
        agent = await self._agent(name, (name, pinned) if name and pinned else None)
        brief = step.node.brief
        return PromptInputs(
            SessionKind.run,
            agent,
            self._model(session, agent),
            run_directive(step),
            node_brief(step),
            brief.tools if brief else NO_RESTRICTION,
            step.run_state.run.mode,
        )

    def _model(self, session: Session, agent: AgentDefinition | None) -> str:
        chosen = session.model or (agent.model if agent else None)
        return self._models.listed(chosen) if chosen else self._models.usual

    async def _agent(self, name: str | None, pin: tuple[str, str] | None) -> AgentDefinition | None:
        if not name:
            return None
        if pin is not None and pin[0] == name:
            pinned = pin[1]
            return await self._threads.start(lambda: self._agents.load_pinned(name, pinned))
        return await self._threads.start(lambda: self._agents.load(name))

    # -- delegated tasks --

    def children(self, services: AgentServices) -> SubagentRunner:
        return SubagentRunner(
            services,
            self._agents,
            SubagentLookups(self._runtime.authorities.named, self._of_child, self._model_of_child),
        )

    async def _of_child(
        self,
        session_id: str,
        handed: DelegatedAuthority,
        can_hand_over: bool,  # noqa: FBT001 - as declared
    ) -> Authority:
        """It cannot ask: only its parent could wait for the answer, and the parent is running."""
        return await self._runtime.authority(
            handed.mode,
            session_id=session_id,
            agent=handed.agent,
            node=handed.node,
            # It is judged in the mode that its parent was judged in.
            open_modes=self._runtime.authority_inputs.open_modes | {handed.mode},
            someone_can_answer=False,
            offered=AT_WORK if can_hand_over else frozenset(),
            switching=NO_SWITCHING,
        )

    async def _model_of_child(self, session_id: str, agent: AgentDefinition) -> str:
        return self._model(await self._runtime.sessions.get(session_id), agent)


def _refuse_less(step: ActiveStep, mode: ToolMode) -> None:
    """Refuse a mode too strict for the step: it must not look done, so it fails, and the run waits."""
    run, brief = step.run_state.run, step.node.brief
    meant = step_mode(run.mode, brief.mode if brief else None)
    if mode is not meant and stricter(mode, meant) is mode:
        raise ModeNotOpen(
            f"the step {step.node.name} needs {meant} mode, but only {mode} is open to it here; "
            f"open {run.mode} mode where the run is executed, then retry it"
        )
