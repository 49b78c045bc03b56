"""The events of the agent loop, as a session's feed shows them.

The feed has them whether this process or another one works, and only once they are stored. So a terminal
and `exec --json` show the same for both.
"""

from collections.abc import Iterator
from typing import Any, cast

from interlock.agent.events import (
    CUT_OFF,
    AgentEvent,
    AskUser,
    ReasoningDelta,
    RetryAnnounced,
    SteeringMessage,
    TaskEnded,
    TextDelta,
    ToolCallInfo,
    ToolDenied,
    ToolResultInfo,
    TurnCompleted,
)
from interlock.agent.limits import LIMIT_NAMES
from interlock.feed.entries import TaskEndCode
from interlock.feed.frames import (
    AskUserData,
    ErrorData,
    EventData,
    FeedItem,
    FeedItemType,
    ReasoningChunk,
    StreamChunk,
    ToolCallData,
    ToolDeniedData,
    ToolResultData,
)
from interlock.sessions.transcript import is_subtask


class AgentEventReader:
    """Reads the items of one session in their order."""

    def __init__(self) -> None:
        self._begin_task()

    def _begin_task(self) -> None:
        # The text of the newest turn, as it was shown; and a text that its turn does not have any more.
        self._turn = 0
        self._text = ""
        self._withdrawn = ""
        # What was shown of the reasoning of the newest turn with any, and whether its end was.
        self._reasoning: tuple[int, str, bool] = (0, "", False)
        # A turn is reported after the results of its calls.
        self._completed: dict[str, Any] | None = None
        self._open_calls: set[str] = set()
        self._is_cut_off = False
        self._limit = ""

    def read(self, item: FeedItem) -> Iterator[AgentEvent]:
        if is_subtask(item.task_id):
            return
        match item.type:
            case FeedItemType.stream_chunk | FeedItemType.reasoning_chunk:
                yield from self._streamed(item)
            case FeedItemType.tool_call:
                call = cast("ToolCallData", item.data)
                self._open_calls.add(call["call_id"])
                yield ToolCallInfo(
                    call["call_id"], call["tool_name"], call["arguments"], call.get("called_as", "")
                )
            case FeedItemType.tool_result:
                result = cast("ToolResultData", item.data)
                self._open_calls.discard(result["call_id"] or "")
                yield ToolResultInfo(result["call_id"] or "", result["tool_name"], result["result"])
            case FeedItemType.tool_denied:
                denial = cast("ToolDeniedData", item.data)
                self._open_calls.discard(denial["call_id"])
                yield ToolDenied(
                    *(denial["call_id"], denial["tool_name"], denial["mode"], denial["error_code"]),
                    *(denial["message"], denial["next_action"]),
                )
            case FeedItemType.ask_user:
                asked = cast("AskUserData", item.data)
                yield AskUser(asked["call_id"], asked["question_id"])
            case FeedItemType.error:
                yield from self._error(cast("ErrorData", item.data))
            case FeedItemType.event:
                yield from self._event(cast("EventData", item.data))
        if item.is_last and not self._open_calls:
            yield from self._end_turn()

    def _streamed(self, item: FeedItem) -> Iterator[AgentEvent]:
        if item.type is FeedItemType.reasoning_chunk:
            yield from self._reasoned(cast("ReasoningChunk", item.data))
        else:
            yield from self._chunk(cast("StreamChunk", item.data))

    def _chunk(self, chunk: StreamChunk) -> Iterator[AgentEvent]:
        if chunk["done"]:
            yield from self._end_task(TaskEnded("done", CUT_OFF if self._is_cut_off else ""))
            return
        known = self._text if chunk["turn"] == self._turn else ""
        text = known[: chunk["offset"]] + chunk["content"]
        self._turn, self._text = chunk["turn"], text
        if not text:
            self._withdrawn = known
        elif text != self._withdrawn and (new := text.removeprefix(known)):
            yield TextDelta(chunk["turn"], len(text) - len(new), new)

    def _reasoned(self, chunk: ReasoningChunk) -> Iterator[AgentEvent]:
        turn, shown, is_over = self._reasoning
        if turn != chunk["turn"]:
            shown, is_over = "", False
        text, duration_ms = shown[: chunk["offset"]] + chunk["content"], chunk["duration_ms"]
        self._reasoning = (chunk["turn"], text, duration_ms is not None)
        new = text.removeprefix(shown)
        if new or (duration_ms is not None and not is_over):
            yield ReasoningDelta(chunk["turn"], len(text) - len(new), new, duration_ms)

    def _stored_reasoning(self, payload: dict[str, Any]) -> Iterator[AgentEvent]:
        """What was not shown before it was stored, unless its answer was."""
        text = (payload.get("reasoning") or {}).get("text")
        if text and not (self._turn == payload["turn"] and self._text):
            yield from self._reasoned(
                {
                    "content": text,
                    "task_id": "",
                    "turn": payload["turn"],
                    "offset": 0,
                    "duration_ms": payload.get("reasoning_ms"),
                }
            )

    def _error(self, error: ErrorData) -> Iterator[AgentEvent]:
        if error["code"] == TaskEndCode.CANCELLED:
            # The cancellation was shown where it was made.
            self._begin_task()
            return
        yield from self._end_task(TaskEnded("failed", error["message"], self._limit))

    def _event(self, event: EventData) -> Iterator[AgentEvent]:
        payload = event["payload"]
        match event["kind"]:
            case "turn.completed":
                self._completed = payload
                self._is_cut_off = payload["finish_reason"] == "length"
                yield from self._stored_reasoning(payload)
            case "retry.scheduled":
                yield RetryAnnounced(payload["delay_seconds"], payload.get("error") or "")
            case "task.steered":
                yield SteeringMessage(event["message"]["content"] if "message" in event else "")
            case "turn.discarded":
                if payload["turn"] == self._turn:
                    self._text = ""
                self._reasoning = (0, "", False)
            case "model.fallback":
                yield RetryAnnounced.by_another(payload.get("error") or "", payload["to_model"])
            case "agent.failed":
                self._limit = payload["error_class"] if payload["error_class"] in LIMIT_NAMES else ""
            case "task.waiting":
                yield from self._end_turn()
            case _:
                pass

    def _end_turn(self) -> Iterator[AgentEvent]:
        completed, self._completed = self._completed, None
        if completed is not None:
            text = self._text if self._turn == completed["turn"] else ""
            yield TurnCompleted(
                *(completed["turn"], text, completed["tool_calls"]),
                *(completed["input_tokens"], completed["output_tokens"]),
            )

    def _end_task(self, ended: TaskEnded) -> Iterator[AgentEvent]:
        yield from self._end_turn()
        yield ended
        self._begin_task()
