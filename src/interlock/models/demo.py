"""The built-in demo: a handful of plain requests, answered with real tool calls. No key, no network.

It gets what every model gets and nothing more, and it does not check whether a tool is offered: like other
models it tries, so that a newcomer sees a refusal and what can be done about it.
"""
# ruff: noqa: RUF001 - the punctuation of Chinese is meant

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
import re2

from interlock.models.offline_models import (
    conversation_key,
    estimate_usage,
    offered_tool_names,
    stream_reply,
)
from interlock.models.provider import (
    AssistantMessage,
    ChatMessage,
    FinishReason,
    ModelReply,
    ModelRequest,
    ModelStreamItem,
    RequestedCall,
    ToolMessage,
    UserMessage,
)

Json = dict[str, Any]

MAX_LINES, MAX_LINE_CHARS, MAX_REQUEST_CHARS = 40, 400, 4000

HELP = """\
I am a small built-in demo, not a language model. I understand only a few plain requests, but the tools I \
call, the gates they pass and the log are real.

Try:
- "what time is it in Zurich?"
- "list files", "read notes.txt", "search for TODO", "find files named *.py"
- "write hello to hello.txt", "append bye to hello.txt", "replace hello with goodbye in hello.txt"
- "run ls -l"
- "remember that the meeting is on Friday", "what do you remember about the meeting?"
- "ask me to choose between tea and coffee"

To connect a real model, set OPENAI_API_KEY, OPENAI_MODEL and MODEL=openai (and OPENAI_BASE_URL for \
another server, which can be on your own machine), then restart Interlock."""

HELP_CHINESE = """\
我是一个内置的小演示，不是真正的语言模型：我只认得几种简单的请求，但我调用的工具、权限检查和记录都是真的。

可以试试：
- “现在上海几点？”
- “列出文件”、“读取 notes.txt”、“搜索 TODO”、“查找名为 *.py 的文件”
- “把 你好 写入 hello.txt”、“把 再见 追加到 hello.txt”、“把 hello.txt 里的 你好 改成 再见”
- “运行 ls -l”
- “记住 周五开会”、“你记得 开会 吗？”
- “问我 要茶还是咖啡”

要连接真正的模型，请设置 OPENAI_API_KEY、OPENAI_MODEL 和 MODEL=openai\
（OPENAI_BASE_URL 可指向其他服务器，包括本机上的），然后重新启动 Interlock。"""


class DemoProvider:
    @property
    def name(self) -> str:
        return "demo"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelStreamItem]:
        for item in stream_reply(reply_to(request)):
            yield item
            # Let other tasks run between two deltas, as a network would.
            await asyncio.sleep(0)

    async def close(self) -> None:
        pass


# -- the commands --------------------------------------------------------------------------------------

_TEXT, _FILE = r"(?P<text>.+?)", r"(?P<path>\.{1,2}|[^\s，。].*?)"
_LONG_TEXT, _OTHER = r"(?P<text>.+)", r"(?P<other>.+)"

# Each tool with its arguments and the requests for it, the first that fits; an argument without its part of
# the request is left out.
_COMMANDS: tuple[tuple[str, dict[str, str], tuple[str, ...]], ...] = (
    (
        "memory_append",
        {"content": "{text}"},
        (rf"remember(?:\s+that\b|\s*:)?\s+{_TEXT}", rf"记住[\s:：,，]*{_TEXT}"),
    ),
    (
        "memory_search",
        {"query": "{text}"},
        (rf"what do you remember about\s+{_TEXT}", rf"你?还?记得\s*{_TEXT}\s*吗"),
    ),
    ("ask_user", {}, (r"ask me\b\s*(?P<text>.*?)", r"问我\s*(?P<text>.*?)")),
    ("bash", {"cmd": "{text}"}, (rf"(?:run|\$)\s+{_TEXT}", rf"(?:运行|执行)\s*{_TEXT}")),
    (
        "edit_file",
        {"path": "{path}", "find": "{text}", "replace": "{other}"},
        (
            rf"(?:replace|change)\s+{_TEXT}\s+(?:with|to)\s+{_OTHER}\s+in\s+{_FILE}",
            rf"[把将]\s*{_FILE}\s*[里中]的?\s*{_TEXT}\s*(?:改成|改为|换成|替换为)\s*{_OTHER}",
        ),
    ),
    (
        "write_file",
        {"path": "{path}", "content": "{text}\n", "mode": "append"},
        (
            rf"(?:append|add)\s+{_LONG_TEXT}\s+to\s+{_FILE}",
            rf"[把将]\s*{_TEXT}\s*(?:追加到|加到)\s*{_FILE}",
        ),
    ),
    (
        "write_file",
        {"path": "{path}", "content": "{text}\n"},
        (
            rf"(?:write|save|put)\s+{_LONG_TEXT}\s+(?:to|into|in)\s+{_FILE}",
            rf"[把将]\s*{_TEXT}\s*(?:写入|写到|保存到)\s*{_FILE}",
        ),
    ),
    (
        "find_files",
        {"name_pattern": "{text}"},
        (rf"find\s+(?:all\s+)?files?\s+(?:named|called|like)\s+{_TEXT}", rf"查?找名为\s*{_TEXT}\s*的文件"),
    ),
    (
        "search_files",
        {"path": "{path}", "pattern": "{literal}"},
        (
            rf"(?:search|grep)(?:\s+for)?\s+{_LONG_TEXT}\s+in\s+{_FILE}",
            rf"(?:search|grep)(?:\s+for)?\s+{_TEXT}",
            rf"在\s*{_FILE}\s*[里中]?\s*(?:搜索|查找)\s*{_TEXT}",
            rf"(?:搜索|查找)\s*{_TEXT}",
        ),
    ),
    (
        "list_files",
        {"path": "{path}"},
        (
            rf"(?:list|show)\s+(?:the\s+)?files\s+in\s+{_FILE}",
            r"ls|list|(?:list|show)\s+(?:the\s+)?files|(?:what|which) files\b.*",
            rf"ls\s+{_FILE}",
            r".*(?:列出|哪些|什么)\s*文件",
            rf"列出\s*{_FILE}(?:\s*目录)?",
        ),
    ),
    (
        "read_file",
        {"path": "{path}"},
        (
            rf"(?:read|open|show|cat)\s+(?:me\s+)?(?:the\s+)?(?:file\s+)?{_FILE}",
            rf"what(?:'s| is) in\s+(?:the\s+)?(?:file\s+)?{_FILE}",
            rf"(?:读取|读一下|读|打开|查看)\s*(?:文件)?\s*{_FILE}",
            rf"{_FILE}\s*[里中]有什么",
        ),
    ),
    (
        "current_time",
        {"timezone": "{zone}"},
        (
            r".*\b(?:time is it|the time|current time|the date|what day)\b.*",
            r".*(?:几点|时间|几号|星期几).*",
        ),
    ),
)
_RAN = ("I ran {cmd}; its exit code is {exit_code}.", "已运行 {cmd}，退出码 {exit_code}。")
_DONE = ("Done: {output}", "完成：{output}")
# In English and Chinese, then the same if there is no output; without `{output}` it follows, in a fence.
_ANSWERS: dict[str, tuple[str, ...]] = {
    "memory_append": _DONE,
    "memory_search": ("From memory:\n{output}", "记忆里有：\n{output}"),
    "ask_user": ("Thank you. You answered: {answer}", "谢谢，你的回答是：{answer}"),
    "bash": (*_RAN, *_RAN),
    "edit_file": _DONE,
    "write_file": _DONE,
    "find_files": ("Found:", "找到了：", "I found nothing.", "没有找到。"),
    "search_files": ("Found:", "找到了：", "I found nothing.", "没有找到。"),
    "list_files": ("Files:", "这里有这些文件：", "It is empty.", "那里是空的。"),
    "read_file": ("Content of {path}:", "{path} 的内容：", "{path} is empty.", "{path} 是空文件。"),
    "current_time": ("It is {output}.", "现在是 {output}。"),
}
_ZONES = {
    "zurich|苏黎世": "Europe/Zurich",
    "london|伦敦": "Europe/London",
    "berlin|柏林": "Europe/Berlin",
    "new york|纽约": "America/New_York",
    "san francisco|旧金山": "America/Los_Angeles",
    "tokyo|东京": "Asia/Tokyo",
    "shanghai|beijing|上海|北京": "Asia/Shanghai",
    "singapore|新加坡": "Asia/Singapore",
    "sydney|悉尼": "Australia/Sydney",
}
_PLEASE = r"(?:please\s+|can you\s+|could you\s+|请|帮我|请帮我)?"
# In linear time, whatever a person writes.
_PATTERNS = [
    (re2.compile(rf"(?is)\A{_PLEASE}\s*(?:{request})[\s.!?。！？]*\z"), tool, arguments)
    for tool, arguments, requests in _COMMANDS
    for request in requests
]
_GREETING = re2.compile(
    r"(?i)\A(?:help|hi|hello|hey|who are you|what can you do|帮助|你好|您好|你是谁|你能)"
)


def _understood(text: str) -> tuple[str, Json] | None:
    """The tool and the arguments of the first command that fits."""
    for pattern, tool, arguments in _PATTERNS if len(text) <= MAX_REQUEST_CHARS else ():
        if (found := pattern.search(text.strip())) is None:
            continue
        parts = {name: _unquoted(value) for name, value in found.groupdict().items() if value}
        if tool == "ask_user":
            return tool, _question(parts.get("text", ""), is_chinese=_is_chinese(text))
        # What a person writes is searched for literally.
        parts["literal"] = re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", parts.get("text", ""))
        if zone := _zone(text):
            parts["zone"] = zone
        given = {
            key: form
            for key, form in arguments.items()
            if set(re.findall(r"{(\w+)}", form)) <= parts.keys()
        }
        return tool, {key: form.format_map(parts) for key, form in given.items()}
    return None


def _zone(text: str) -> str:
    if named := re.search(r"\b(?:[A-Z][A-Za-z_]+/[A-Z][A-Za-z_/]+|UTC)\b", text):
        return named[0]
    return next((zone for names, zone in _ZONES.items() if re.search(names, text.lower())), "")


def _question(wanted: str, *, is_chinese: bool) -> Json:
    """A choice if several things are named, a yes or no if something is asked, else a fixed question."""
    listed = re.search(r"(?:between|among|from|要|选)\s*(.+)", wanted)
    options = re.split(r"\s*(?:,|，|、|\bor\b|\band\b|还是|或者?)\s*", listed[1]) if listed else []
    if len(options) > 1:
        chosen = [{"value": option[:100]} for option in dict.fromkeys(filter(None, options))]
        message = "请选择：" if is_chinese else "Which one?"
        return {"type": "selection", "message": message, "options": chosen}
    about = re.sub(r"\A(?:whether|if|是否)\s*", "", wanted)
    if about in {"", "a question", "一个问题"}:
        about = "演示一切正常吗" if is_chinese else "Does the demo work for you"
    return {"type": "confirmation", "message": about + ("？" if is_chinese else "?")}


def _unquoted(text: str) -> str:
    quoted = re.fullmatch(r"\"(.+)\"|'(.+)'|“(.+)”|「(.+)」|`(.+)`", text.strip(), re.DOTALL)
    return next(filter(None, quoted.groups())) if quoted else text.strip()


def _is_chinese(text: str) -> bool:
    return re.search(r"[\u4e00-\u9fff]", text) is not None


# -- the conversation ----------------------------------------------------------------------------------


def reply_to(request: ModelRequest) -> ModelReply:
    """A pure function of the conversation."""
    messages = request.messages
    users = [(at, each.text) for at, each in enumerate(messages) if isinstance(each, UserMessage)]
    asked, text = users[-1] if users else (len(messages), "")
    done = _done(messages[asked + 1 :])
    move = _next_move(text, done, offered_tool_names(request.tools))
    if isinstance(move, str):
        reply = ModelReply(move)
    else:
        name, arguments = move
        call = RequestedCall(f"demo_{conversation_key(request)}", name, orjson.dumps(arguments).decode())
        reply = ModelReply("", (call,), FinishReason.tool_calls)
    return replace(reply, usage=estimate_usage(request, reply))


def _done(messages: Sequence[ChatMessage]) -> list[tuple[str, Json]]:
    """The calls of this task and their results."""
    results = {message.call_id: message.text for message in messages if isinstance(message, ToolMessage)}
    calls = (call for each in messages if isinstance(each, AssistantMessage) for call in each.calls)
    return [(call.name, _object(results[call.call_id])) for call in calls if call.call_id in results]


def _object(text: str) -> Json:
    """A result that is not Interlock's envelope is used as plain text."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None
    return value if isinstance(value, dict) else {"ok": True, "stdout": text}


def _next_move(text: str, done: list[tuple[str, Json]], offered: frozenset[str]) -> tuple[str, Json] | str:
    """The next call, or an answer in words."""
    is_chinese = _is_chinese(text)
    if (understood := _understood(text)) is None:
        known = HELP_CHINESE if is_chinese else HELP
        if _GREETING.search(text):
            return known
        return ("这句话我没听懂。" if is_chinese else "I did not understand that. ") + known
    tool, arguments = understood
    tool = "bash_readonly" if tool == "bash" and "bash" not in offered else tool
    reading = "read_file", {"path": arguments.get("path")}
    if not done:
        # An edit requires that the file was read.
        return reading if tool == "edit_file" else (tool, arguments)
    name, result = done[-1]
    if name == "read_file" != tool and result.get("ok") is True:
        return tool, arguments
    must_read = _text(result, "error_code") in {"READ_REQUIRED", "STALE_READ"}
    if must_read and all(name != "read_file" for name, _ in done):
        return reading
    return _answer(understood[0], arguments, result, is_chinese=is_chinese)


def _answer(tool: str, arguments: Json, result: Json, *, is_chinese: bool) -> str:
    # A command that ran and failed: its output says why.
    has_run = "cmd" in arguments and _text(result, "error_code") == "EXECUTION_ERROR" and "stdout" in result
    if result.get("ok") is not True and not has_run:
        return _refusal(result, is_chinese=is_chinese)
    output = "\n".join(filter(None, (_text(result, "stdout"), _text(result, "stderr"))))
    filled, empty = _ANSWERS[tool][:2], _ANSWERS[tool][2:] or ("Done.", "完成。")
    words = (filled if output.strip() else empty)[is_chinese]
    fields = {**arguments, "exit_code": result.get("exit_code", 0), "output": output.strip()}
    sentence = words.format_map({**fields, "answer": _in_words(output.strip(), is_chinese=is_chinese)})
    if not output.strip() or "{output}" in words or "{answer}" in words:
        return sentence
    more = result.get("next_page_cursor") is not None
    return f"{sentence}\n{_fenced(output, is_chinese=is_chinese, has_more=more)}"


def _refusal(result: Mapping[str, Any], *, is_chinese: bool) -> str:
    """A refused or failed call, and what can be done about it."""
    code = _text(result, "error_code")
    message = _text(result, "message") or _text(result, "stderr") or code or "?"
    is_denied = code in {
        "MODE_DENIED",
        "TOOL_NOT_AVAILABLE",
        "PATH_DENIED",
        "COMMAND_DENIED",
        "LIMIT_EXCEEDED",
    }
    # Some words of a refusal are for a model, not for the person.
    for_model = r"\s*(?:Tell the user[^.]*|Continue without it)\.|; continue without it(?=\.)"
    step = re.sub(for_model, "", _text(result, "next_action")).strip()
    if is_chinese:
        first = "我试过了，但被 Interlock 拒绝" if is_denied else "我试过了，但没有成功"
        return f"{first}：{message}（{code}）。" + (f"\n下一步：{step}" if step else "")
    first = "I tried, but Interlock denied it" if is_denied else "I tried, but it did not work"
    return f"{first}: {message} ({code})." + (f"\nWhat you can do: {step}" if step else "")


def _in_words(answer: str, *, is_chinese: bool) -> str:
    """An answer to the demo's own question, a choice or a yes, in plain words."""
    match _object(answer):
        case {"choices": [*choices]}:
            return ", ".join(map(str, choices))
        case {"confirmed": bool(confirmed)}:
            return ("是" if confirmed else "否") if is_chinese else ("yes" if confirmed else "no")
    return answer


def _fenced(output: str, *, is_chinese: bool, has_more: bool) -> str:
    """The first lines of an output, in a fence that nothing in it can close."""
    lines = output.rstrip("\n").split("\n")
    kept = [
        line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}…" for line in lines[:MAX_LINES]
    ]
    fence = "`" * (max((len(run) for run in re.findall(r"`{3,}", "\n".join(kept))), default=2) + 1)
    text = "\n".join([fence, *kept, fence])
    if hidden := len(lines) - len(kept):
        text += f"\n（还有 {hidden} 行）" if is_chinese else f"\n({hidden} more lines)"
    if has_more:
        text += "\n（后面还有更多）" if is_chinese else "\n(truncated)"
    return text


def _text(result: Mapping[str, Any], key: str) -> str:
    value = result.get(key)
    return value if isinstance(value, str) else ""
