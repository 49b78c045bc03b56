"""Every refusal and every tool description that the server writes in English has its Chinese on the page.

The English is for the model and the log; the page matches it against js/texts-server-messages.js. A
sentence that is added or changed in Python without its Chinese fails here.
"""

import ast
import asyncio
import importlib
import inspect
import itertools
import json
import re
import textwrap
from pathlib import Path

import pytest

import interlock
from interlock.agent.loop import NO_WORDS
from interlock.agent.placeholder_results import (
    ENDED_BEFORE,
    REFUSED_OFTEN,
    not_run_result,
    stopped_result,
    unknown_outcome_result,
)
from interlock.channels.telegram.removed_users import removal_reason
from interlock.commands.judge import CommandJudge
from interlock.commands.rules import builtin_rules
from interlock.config.image import image_endpoint
from interlock.config.modes import ALL_MODES, ToolMode
from interlock.config.protected_names import PROTECTED_NAMES
from interlock.core.errors import ErrorClass, ErrorCode
from interlock.gates import failures
from interlock.gates.gate import ToolCall, judge
from interlock.gates.mcp_administration import McpAdministration
from interlock.gateway.auth import REASONS
from interlock.policy.authority import compile_authority
from interlock.policy.authority_inputs import AuthorityInputs, Capabilities, ModeSwitching
from interlock.policy.policy_fields import (
    FsPolicy,
    ImagePolicy,
    McpPolicy,
    MemoryPolicy,
    ShellPolicy,
    ToolPolicy,
)
from interlock.policy.verdict import DeniedTool, ModeSwitchMethod
from interlock.sandbox.backend_selection import BackendSelection, choose_backend
from interlock.sandbox.programs import RG
from interlock.sandbox.unconfined_backend import UnconfinedBackend
from interlock.tools.builtins import edit_file
from interlock.tools.files import base
from interlock.tools.files.write_checks import refuse_oversized
from interlock.tools.mcp.definition import NAME_CLASH, definition_problem
from interlock.tools.mcp.launch import LaunchCeiling, _not_run
from interlock.tools.mcp.pool import library_missing
from interlock.tools.mcp.service import McpService
from interlock.tools.mcp.tool import _review_hint
from interlock.tools.tool import ToolContext
from interlock.wiring import authority_inputs, build_registry
from tests.harness.nodejs import evaluate_in_node
from tests.unit.gates.test_foreign_tools import Foreign

SOURCES = Path(interlock.__file__).parent
CHINESE = re.compile("[\u4e00-\u9fff]")
# Two English words one after another, unless they are what a person types.
ENGLISH = re.compile(r"\b[A-Za-z]{2,} (?:[a-z]{2,}|a)\b")
TYPED = re.compile(
    r"(?:/|--)mode \w+|interlock (?:sessions mode|settings set|mcp \w+)|(?:pip|apt) install [\w'-]+"
)
POLICY_CODES = {code.value for code in ErrorCode if code.error_class is ErrorClass.policy}


def _in_chinese(sentences):
    return evaluate_in_node("texts-server-messages.js", "given.map(m.toChinese)", sentences)


def _remaining(sentences, names=()):
    """The sentences of which a reader of Chinese still sees English, with what they see."""
    told = sorted(set(filter(None, sentences)))
    assert told
    seen = _in_chinese(told)
    left = {}
    for english, shown in zip(told, seen, strict=True):
        plain = TYPED.sub("", shown)
        for name in names:
            plain = plain.replace(name, "")
        if not CHINESE.search(plain) or ENGLISH.search(plain):
            left[english] = shown
    return left


# -- what the layers say -----------------------------------------------------------------------------

POLICIES = [
    ToolPolicy(),
    ToolPolicy(denied_tools=frozenset({"read_file", "mcp__s__listed"})),
    ToolPolicy(denied_tools=frozenset({"group:memory", "effect:exec"})),
    ToolPolicy(fs=FsPolicy(enabled=False)),
    ToolPolicy(shell=ShellPolicy(enabled=False)),
    ToolPolicy(shell=ShellPolicy(network=False)),
    ToolPolicy(shell=ShellPolicy(network=True, ports=frozenset({80}))),
    ToolPolicy(memory=MemoryPolicy(enabled=False)),
    ToolPolicy(image=ImagePolicy(enabled=False)),
    ToolPolicy(mcp=McpPolicy(enabled=False)),
    ToolPolicy(mcp=McpPolicy(allowed_servers=frozenset({"other"}))),
]
LISTED = ToolPolicy(mcp=McpPolicy(enabled=True, allowed_servers=frozenset({"s"})))
OPEN_MODES = [ALL_MODES, frozenset({ToolMode.chat_safe}), frozenset({ToolMode.chat_safe, ToolMode.plan})]


@pytest.fixture
def registry():
    made = build_registry()
    made.set_mode_override("current_time", frozenset({ToolMode.coding}))
    made.replace_foreign(
        [
            Foreign("mcp__s__listed"),
            Foreign("mcp__s__unclassed", modes=frozenset()),
            Foreign("mcp__s__network", uses_network=True, network_ports=frozenset({80, 443})),
            Foreign("mcp__s__changed", unavailable="the server s no longer offers it"),
        ]
    )
    return made


@pytest.fixture
def machines(monkeypatch):
    """What works here, and every way in which something does not."""
    confined = BackendSelection(UnconfinedBackend(), "TOOL_SANDBOX=off: commands run without confinement")
    nothing = BackendSelection(None, "landlock is not installed; bubblewrap is not installed")
    made = [
        Capabilities(present=frozenset({"person", "roots"})),
        Capabilities(),
        authority_inputs.capabilities(None),
        authority_inputs.capabilities((Path("/r"),), sandbox=confined),
        authority_inputs.capabilities((Path("/r"),), sandbox=nothing),
    ]
    monkeypatch.setattr(authority_inputs, "locate", lambda _program, _roots: None)
    return [*made, authority_inputs.capabilities((Path("/r"),), sandbox=confined)]


def _situations(machines):
    for mode in ToolMode:
        for open_modes in OPEN_MODES:
            for machine in machines:
                yield AuthorityInputs(mode=mode, open_modes=open_modes, capabilities=machine)
            for way in ModeSwitchMethod:
                for modes in (frozenset(), open_modes):
                    switching = ModeSwitching(way, modes)
                    yield AuthorityInputs(
                        mode=mode, open_modes=open_modes, capabilities=machines[3], switching=switching
                    )
        for layer in ("environment", "settings", "agent", "node"):
            for policy in POLICIES:
                layers = {"settings": LISTED} | {layer: policy}
                yield AuthorityInputs(mode=mode, open_modes=ALL_MODES, capabilities=machines[3], **layers)


def _verdicts(registry, machines):
    for each in _situations(machines):
        for verdict in compile_authority(registry, each).verdicts.values():
            if isinstance(verdict, DeniedTool):
                yield from (verdict.message, verdict.next_action)


def test_every_verdict_has_its_chinese(registry, machines):
    sentences = set(_verdicts(registry, machines))
    assert len(sentences) > 100
    assert _remaining(sentences) == {}


def test_every_refusal_by_the_gate_has_its_chinese(registry):
    coding = AuthorityInputs(
        mode=ToolMode.coding,
        open_modes=ALL_MODES,
        settings=LISTED,
        capabilities=Capabilities(present=frozenset({"roots", "sandbox"})),
    )
    none = compile_authority(type(registry)(), coding)
    some = compile_authority(registry, coding)
    registry.replace_foreign([])

    async def refusals():
        for name, authority in [("x", none), ("x", some), ("write_fil", some), ("mcp__s__listed", some)]:
            refusal = await judge(ToolCall("c", name, {}), authority, registry, ToolContext("s"))
            yield from_refusal(refusal)

    def from_refusal(refusal):
        return refusal.failure.message, refusal.failure.next_action

    async def collected():
        return [text async for pair in refusals() for text in pair]

    sentences = asyncio.run(collected())
    assert _remaining(sentences) == {}


def test_every_answer_to_a_call_without_a_result_has_its_chinese():
    answers = [
        *(not_run_result("bash", "coding", reason) for reason in (ENDED_BEFORE, REFUSED_OFTEN)),
        stopped_result("bash", "coding"),
        unknown_outcome_result("bash", "coding"),
    ]
    sentences = [json.loads(answer)[field] for answer in answers for field in ("message", "next_action")]
    authority = compile_authority(build_registry(), AuthorityInputs(mode=ToolMode.coding))
    failure = failures.task_cancelled("bash", authority)
    sentences += [failure.message, failure.next_action, NO_WORDS]
    assert _remaining(sentences) == {}


def test_every_description_of_a_tool_has_its_chinese():
    descriptions = [entry.tool.description for entry in build_registry()]
    assert len(descriptions) == 18
    assert _remaining(descriptions) == {}


# -- what tools refuse -------------------------------------------------------------------------------


def test_every_refused_command_has_its_chinese():
    judging = CommandJudge(("curl -k", "git push"), PROTECTED_NAMES, "/home/ann")
    commands = [example for rule in builtin_rules() for example in rule.match]
    commands += ["curl -k https://example.org", "git push", "echo x > .git/hooks/pre-commit"]
    commands += ["x" * 100_001, "{ ls; " * 101 + "}; " * 101]
    refused = [judging.judge(command, "/home/ann/ws") for command in commands]
    assert None not in refused
    names = [name for each in refused for name in (each.subcommand, each.rule)]
    sentences = {text for each in refused for text in (each.message, each.next_action)}
    assert _remaining(sentences, sorted(names, key=len, reverse=True)) == {}


class Sampled(Exception):
    """A text that is not written down where it is used."""


SAMPLES = {"RG.hint": RG.hint, "RG.names[0]": RG.names[0]}


def _sampled(node, module):
    """A text as the source has it, with something for every field."""
    match node:
        case ast.Constant(str() as text):
            return text
        case ast.JoinedStr(values):
            return "".join(_sampled(value, module) for value in values)
        case ast.FormattedValue(value):
            return SAMPLES.get(ast.unparse(value), "x1")
        case ast.BinOp(left, ast.Add(), right):
            return _sampled(left, module) + _sampled(right, module)
        case ast.Name(name) if isinstance(getattr(module, name, None), str):
            return getattr(module, name)
    raise Sampled(ast.unparse(node))


def _tool_errors():
    """Code, message and next step of every ToolError that is written down."""
    for path in sorted(SOURCES.rglob("*.py")):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        for call in calls:
            if ast.unparse(call.func) == "ToolError" and len(call.args) == 3:
                name = ".".join(path.relative_to(SOURCES.parent).with_suffix("").parts)
                yield importlib.import_module(name), call.args


def _only_fields(text):
    """What is made of other texts altogether, but for the name of an argument."""
    return re.fullmatch(r"(?:(?:cursor|path|pattern): )?(?:x1[ :]*)+", text) is not None


def test_every_refusal_and_failure_of_a_tool_has_its_chinese():
    sentences = [
        inspect.signature(refuse_oversized).parameters["next_action"].default,
        edit_file._TOO_LARGE,
    ]
    sentences += [text.format(shown="x1") for text in base._SENTENCES.values()]
    sentences += base._NEXT_STEPS.values()
    made_elsewhere = set()
    for module, (code, *texts) in _tool_errors():
        for text in texts:
            try:
                sentences.append(_sampled(text, module))
            except Sampled as error:
                if ast.unparse(code).rpartition(".")[2] in POLICY_CODES:
                    made_elsewhere.add(str(error))
    # Those of commands have a test of their own; the next step is the parameter of refuse_too_much.
    assert made_elsewhere == {"verdict.message", "verdict.next_action", "next_action"}
    assert len(sentences) > 120
    assert _remaining(itertools.filterfalse(_only_fields, sentences)) == {}


# -- why something cannot be used --------------------------------------------------------------------

GIVES_REASONS = [
    image_endpoint,
    library_missing,
    definition_problem,
    McpAdministration._why_closed,
    LaunchCeiling.why_not,
    McpService._why_unavailable,
    McpService.why_not,
    _review_hint,
    LaunchCeiling._its_secrets,
]
TAKES_REASONS = {"UnusableSchema", "SandboxUnavailable", "self._gone", "_not_available"}


def _returned(function):
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    found = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return)]
    module = inspect.getmodule(function)
    return [_sampled(node, module) for node in found if isinstance(node, ast.Constant | ast.JoinedStr)]


def _given(path):
    """What is given to a function or an error that takes a reason."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in TAKES_REASONS:
            text = node.args[0]
            yield _sampled(text.args[0] if isinstance(text, ast.Call) else text, None)


def test_every_reason_why_something_cannot_be_used_has_its_chinese():
    sentences = [text for function in GIVES_REASONS for text in _returned(function)]
    sentences += [text for path in SOURCES.rglob("*.py") for text in _given(path)]
    sentences += [_not_run(f"{what} refers to /r/x", Path("/r")) for what in ("its command", "PATH")]
    sentences.append(NAME_CLASH)
    choice = asyncio.run(choose_backend("none", opened=()))
    sentences.append(choice.reason)
    assert len(sentences) > 25
    assert _remaining(sentences) == {}


def test_every_reason_why_work_was_cancelled_has_its_chinese():
    sentences = [*REASONS.values(), removal_reason(501)]
    assert _remaining(sentences, names=("telegram:501",)) == {}


# -- what is not ours --------------------------------------------------------------------------------


def test_what_is_not_a_sentence_of_ours_stays_as_it_is():
    others = [
        "Nothing like this.",
        "",
        "x" * 50_000,
        "a. b; c? " * 2000,
        "{tool} {why}",
        "it is on the list",
    ]
    assert _in_chinese(others) == others


def test_what_is_filled_in_stays_as_it_is():
    hostile = "{rule} is protected ({path}): x is outside the opened folders"
    [shown] = _in_chinese([f"{hostile} is outside the opened folders"])
    assert shown == f"{hostile} 在开放的文件夹之外"
