"""`interlock questions`: questions that tools asked, and their answers."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import (
    AsJson,
    Count,
    local_time,
    note,
    print_json,
    print_line,
    print_table,
    print_text,
)
from interlock.cli.runtime import open_cli_agent_runtime, open_cli_runtime
from interlock.core.errors import BadUsage

if TYPE_CHECKING:
    from interlock.questions.rows import Question
    from interlock.questions.widgets import Widget

app = App(name="questions", help="List, show, answer and close questions.", help_format="plaintext")

Switch = Annotated[bool, Parameter(negative=())]
Several = Annotated[tuple[str, ...], Parameter(negative=(), consume_multiple=False)]

_HOW = {
    "form": "--set NAME=VALUE for each field",
    "selection": "--choose VALUE (repeat for several), --text WORDS for another answer",
    "confirmation": "--yes or --no",
    "plan_review": "--yes, --no, or --text WORDS to request a revision",
    "feedback": "--rate N, --text WORDS",
    "action_selection": "--choose ACTION, and --text WORDS for a comment",
}


@dataclass(frozen=True, slots=True)
class _AnswerOptions:
    """An answer in the short options of the command line."""

    yes: bool
    no: bool
    choose: tuple[str, ...]
    rate: int | None
    text: str | None
    fields: tuple[str, ...]


@app.command(name="list")
async def list_questions(
    *,
    session: str | None = None,
    closed: Switch = False,
    limit: Count = 50,
    json: AsJson = False,
) -> int:
    """List the questions that wait for an answer, the newest first.

    Parameters
    ----------
    session
        Only questions of this session.
    closed
        Include answered and closed questions.
    limit
        Maximum number of questions.
    """
    async with open_cli_runtime() as runtime:
        found = await runtime.questions.list_questions(
            session_id=session, include_closed=closed, limit=limit
        )
    if json:
        print_json([asdict(question) for question in found])
    elif not found:
        note("no questions" if closed else "no open questions")
    else:
        rows = [[q.id, q.widget, q.status.value, local_time(q.asked_us), _first_line(q)] for q in found]
        print_table(["question", "type", "status", "asked", "text"], rows)
    return ExitCode.ok


@app.command
async def show(question: str, *, json: AsJson = False) -> int:
    """Show a question and its answer, if any.

    Parameters
    ----------
    question
        The question's id, as `interlock questions list` shows it.
    """
    async with open_cli_runtime() as runtime:
        found = await runtime.questions.get(question)
    if json:
        print_json(asdict(found))
    else:
        _print_question(found)
    return ExitCode.ok


@app.command
async def answer(
    question: str,
    *,
    yes: Switch = False,
    no: Switch = False,
    choose: Several = (),
    rate: int | None = None,
    text: str | None = None,
    fields: Annotated[tuple[str, ...], Parameter(name="--set", negative=(), consume_multiple=False)] = (),
    args: str | None = None,
    build: Switch = False,
    json: AsJson = False,
) -> int:
    """Answer a question. The answer becomes the result of the call that asked.

    Parameters
    ----------
    question
        The question's id.
    yes
        Confirm, or approve the plan.
    no
        Deny, or reject the plan.
    choose
        The value of an option or an action; repeat the option for several.
    rate
        The rating.
    text
        A comment, or an answer other than the options.
    fields
        A field of a form as NAME=VALUE; NAME= leaves it empty.
    args
        The whole answer as a JSON object, instead of the options above.
    build
        With an approved plan: build it as a task in coding mode, which must be open.
    """
    from interlock.wiring import local_actor

    said = _AnswerOptions(yes, no, choose, rate, text, fields)
    async with open_cli_agent_runtime() as agent_runtime:
        questions = agent_runtime.runtime.questions
        found = await questions.get(question)
        given = _from_json(args, said) if args is not None else _from_words(found, said)
        if build:
            built = await agent_runtime.plans.approve(question, given, who=local_actor())
            answered = built.question
            note(f"queued as task {built.task.id} in coding mode")
        else:
            answered = await questions.answer(question, given, who=local_actor())
    if json:
        print_json(asdict(answered))
    else:
        _print_answer(answered)
    note(f"recorded  interlock events tree {answered.session_id}")
    return ExitCode.ok


@app.command
async def close(question: str, *, reason: str = "no answer is expected", json: AsJson = False) -> int:
    """Close a question without an answer. The call that asked it ends as cancelled.

    Parameters
    ----------
    question
        The question's id.
    reason
        The reason, for readers of the log.
    """
    from interlock.wiring import local_actor

    async with open_cli_runtime() as runtime:
        closed = await runtime.questions.expire(question, reason=reason, who=local_actor())
    if json:
        print_json(asdict(closed))
    else:
        print_line(f"closed    {closed.id}")
    return ExitCode.ok


# -- output ------------------------------------------------------------------------------------------


def _first_line(question: "Question") -> str:
    words = " ".join(str(question.document.get("message", "")).split())
    return words if len(words) <= 60 else f"{words[:59]}…"


def _print_question(question: "Question") -> None:
    from interlock.questions.rendering import question_text

    print_line(f"question  {question.id}  ({question.widget}, {question.status})")
    print_line(f"session   {question.session_id}")
    print_line(f"asked     {local_time(question.asked_us)} by {question.tool_name} in {question.mode} mode")
    print_line()
    print_text(question_text(question.read_widget()))
    print_line()
    if question.closed_us is None:
        note(f"to answer: interlock questions answer {question.id}  {_HOW[question.widget]}")
    else:
        _print_answer(question)


def _print_answer(question: "Question") -> None:
    from interlock.questions.rendering import answer_text

    when = f"{local_time(question.closed_us or 0)} by {question.closed_by}"
    if question.answer is None:
        print_line(f"closed    {when}: {question.close_reason}")
    else:
        print_line(f"answered  {when}")
        print_text(answer_text(question.read_widget(), question.answer))


# -- short options -----------------------------------------------------------------------------------


def _from_json(args: str, said: _AnswerOptions) -> Mapping[str, Any]:
    import orjson

    if _names_said(said):
        raise BadUsage("--args is the whole answer; omit the other options")
    try:
        given = orjson.loads(args)
    except orjson.JSONDecodeError as error:
        raise BadUsage(f"--args is not valid JSON: {error}") from None
    if not isinstance(given, dict):
        raise BadUsage("--args must be a JSON object")
    return given


def _from_words(question: "Question", said: _AnswerOptions) -> Mapping[str, Any]:
    names = _names_said(said)
    if not names or not set(names) <= _USES[question.widget] or (said.yes and said.no):
        raise BadUsage(f"answer a question of type {question.widget} with {_HOW[question.widget]}")
    return _answer(question.read_widget(), said)


_USES = {
    "form": {"set"},
    "selection": {"choose", "text"},
    "confirmation": {"yes", "no"},
    "plan_review": {"yes", "no", "choose", "text"},
    "feedback": {"rate", "text"},
    "action_selection": {"choose", "text"},
}


def _names_said(said: _AnswerOptions) -> list[str]:
    given = {
        "yes": said.yes,
        "no": said.no,
        "choose": bool(said.choose),
        "rate": said.rate is not None,
        "text": said.text is not None,
        "set": bool(said.fields),
    }
    return [name for name, is_given in given.items() if is_given]


def _answer(widget: "Widget", said: _AnswerOptions) -> dict[str, Any]:
    """The answer that these options express for the question. The question service validates it."""
    from interlock.questions.widgets import Confirmation, Feedback, Form, PlanReview, Selection

    comment = {} if said.text is None else {"comment": said.text}
    match widget:
        case Form():
            return {"values": _values(widget, said.fields)}
        case Selection():
            other = {} if said.text is None else {"other": said.text}
            return {"choices": list(said.choose), **other}
        case Confirmation():
            return {"confirmed": said.yes}
        case PlanReview():
            return {"decision": _decision(said), **comment}
        case Feedback():
            rating = {} if said.rate is None else {"rating": said.rate}
            return {**rating, **comment}
        case _:
            return {"action": said.choose[0] if len(said.choose) == 1 else list(said.choose), **comment}


def _decision(said: _AnswerOptions) -> str:
    if said.choose:
        return said.choose[0]
    if said.yes:
        return "approve"
    return "reject" if said.no else "revise"


def _values(form: Any, pairs: tuple[str, ...]) -> dict[str, Any]:
    from interlock.questions.fields import FieldType, parse_typed

    types = {field.name: field.type for field in form.fields}
    values: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            raise BadUsage(f"--set {pair}: write NAME=VALUE")
        kind = types.get(name, FieldType.text)
        if kind is FieldType.multi_select and text:
            values.setdefault(name, []).append(text)
        else:
            values[name] = parse_typed(kind, text)
    return values
