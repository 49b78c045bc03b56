"""Which kind, agent, model and Authority a session has: what its prompts and its calls follow from."""

from dataclasses import replace

from interlock.agent.agent import AgentServices
from interlock.agent.children import ChildDesk, ChildRules
from interlock.agent.personas import Agent, AgentFolder
from interlock.agent.prompt_builder import Earlier, PromptInputs
from interlock.config.modes import ToolMode, stricter
from interlock.gates.authority import Authority
from interlock.gates.handing import HandedOn, open_to_step, step_mode
from interlock.gates.policy import NO_RESTRICTION
from interlock.gates.situation import NO_SWITCHING, Switching
from interlock.gates.verdict import SwitchWay
from interlock.infra.errors import ModeNotOpen
from interlock.infra.threads import WorkThreads
from interlock.models.roster import ModelRoster
from interlock.session.models import Session, SessionKind
from interlock.wiring.runtime import Runtime
from interlock.wiring.situation import AT_WORK, IN_A_STEP
from interlock.workflow.rows import StepAtWork
from interlock.workflow.telling import node_brief, run_directive

# How the people of Telegram are named, before their ids.
TELEGRAM = "telegram:"


class Circumstances:
    """`someone_can_answer`: whether questions of the agents here reach a person.

    `way` is how people who talk with this process switch a session's mode; None: they talk with others.
    """

    def __init__(
        self,
        runtime: Runtime,
        agents: AgentFolder,
        models: ModelRoster,
        *,
        someone_can_answer: bool,
        way: SwitchWay | None,
    ) -> None:
        self._runtime = runtime
        self._agents = agents
        self._models = models
        self._someone_can_answer = someone_can_answer
        self._way = way
        self._threads = WorkThreads("interlock-agents")

    async def __call__(self, session_id: str, mode: ToolMode, earlier: Earlier) -> PromptInputs:
        began = earlier.inputs or await self._beginning(session_id, mode, earlier)
        authority = await self._runtime.authority(
            mode,
            session_id=session_id,
            agent=began.agent.tools if began.agent else NO_RESTRICTION,
            node=began.node,
            someone_can_answer=self._someone_can_answer,
            open_modes=self._open_modes(began.ceiling, mode),
            offered=IN_A_STEP if began.run_directive else AT_WORK,
            switching=began.switching,
        )
        return began if authority is began.authority else replace(began, authority=authority)

    def _open_modes(self, ceiling: ToolMode | None, mode: ToolMode) -> frozenset[ToolMode]:
        opened = self._runtime.situation.open_modes
        return opened if ceiling is None else open_to_step(opened, ceiling, mode)

    def _switching(self, who: str) -> Switching:
        """Of the person whose task it is.

        What this process opened holds for people who talk with it. Of another process only the modes are
        known that the settings open.
        """
        is_telegram = who.startswith(TELEGRAM)
        way = SwitchWay.telegram if is_telegram else SwitchWay.page
        if self._way in {SwitchWay.terminal, SwitchWay.command} and not is_telegram:
            way = self._way
        settings = self._runtime.settings
        modes = self._runtime.situation.open_modes if way is self._way else settings.session.open_modes
        operators = {f"{TELEGRAM}{user}" for user in settings.telegram.operators}
        return Switching(SwitchWay.operators if is_telegram and who not in operators else way, modes)

    async def _beginning(self, session_id: str, mode: ToolMode, earlier: Earlier) -> PromptInputs:
        session = await self._runtime.sessions.get(session_id)
        kind, nothing = SessionKind(session.kind), await self._runtime.authority(mode)
        if kind is SessionKind.run and (step := await self._runtime.runs.at_work(session_id)):
            _refuse_less(step, mode)
            return await self._of_step(session, step, nothing)
        agent = await self._agent(session.agent, earlier.pin)
        return PromptInputs(
            kind, nothing, agent, self._model(session, agent), switching=self._switching(earlier.who)
        )

    async def _of_step(self, session: Session, step: StepAtWork, nothing: Authority) -> PromptInputs:
        """The step's agent first, then the workflow's, then the session's; as it was when the run began."""
        name = step.agent or session.agent
        pinned = step.standing.run.agents.get(name or "")
        agent = await self._agent(name, (name, pinned) if name and pinned else None)
        brief = step.node.brief
        return PromptInputs(
            SessionKind.run,
            nothing,
            agent,
            self._model(session, agent),
            run_directive(step),
            node_brief(step),
            brief.tools if brief else NO_RESTRICTION,
            step.standing.run.mode,
        )

    def _model(self, session: Session, agent: Agent | None) -> str:
        chosen = session.model or (agent.model if agent else None)
        return self._models.listed(chosen) if chosen else self._models.usual

    async def _agent(self, name: str | None, pin: tuple[str, str] | None) -> Agent | None:
        if not name:
            return None
        if pin is not None and pin[0] == name:
            pinned = pin[1]
            return await self._threads.start(lambda: self._agents.load_pinned(name, pinned))
        return await self._threads.start(lambda: self._agents.load(name))

    # -- of tasks that are handed over --

    def children(self, services: AgentServices) -> ChildDesk:
        return ChildDesk(
            services,
            self._agents,
            ChildRules(self._runtime.authorities.named, self._of_child, self._model_of_child),
        )

    async def _of_child(self, session_id: str, handed: HandedOn, can_hand_over: bool) -> Authority:  # noqa: FBT001 - as declared
        """It cannot ask: nobody could wait for the answer but its parent, and that is at work."""
        return await self._runtime.authority(
            handed.mode,
            session_id=session_id,
            agent=handed.agent,
            node=handed.node,
            # What its parent was judged in, it is judged in.
            open_modes=self._runtime.situation.open_modes | {handed.mode},
            someone_can_answer=False,
            offered=AT_WORK if can_hand_over else frozenset(),
            switching=NO_SWITCHING,
        )

    async def _model_of_child(self, session_id: str, agent: Agent) -> str:
        return self._model(await self._runtime.sessions.get(session_id), agent)


def _refuse_less(step: StepAtWork, mode: ToolMode) -> None:
    """A step that could do nothing of what it is for must not look done: it fails, and the run waits."""
    run, brief = step.standing.run, step.node.brief
    meant = step_mode(run.mode, brief.mode if brief else None)
    if mode is not meant and stricter(mode, meant) is mode:
        raise ModeNotOpen(
            f"the step {step.node.name} needs {meant} mode, but only {mode} is open to it here; "
            f"open {run.mode} mode where the run is executed, then retry it"
        )
