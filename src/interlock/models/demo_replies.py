"""The demo's replies, in English and in Chinese."""
# ruff: noqa: RUF001 - the punctuation of Chinese is meant

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

MAX_LINES = 40
_MAX_LINE = 400
# The parts of a refusal that are for a model, not for the person.
_FOR_THE_MODEL = re.compile(r"\s*(?:Tell the user[^.]*|Continue without it)\.|; continue without it(?=\.)")

CAN_DO = """\
- "what time is it in Zurich?"
- "list files", "read notes.txt", "search for TODO", "find files named *.py"
- "write hello to hello.txt", "replace hello with goodbye in hello.txt"
- "run ls -l"
- "remember that the meeting is on Friday", "what do you remember about the meeting?"
- "ask me to choose between tea and coffee\""""

CAN_DO_CHINESE = """\
- “现在上海几点？”
- “列出文件”、“读取 notes.txt”、“搜索 TODO”
- “把 你好 写入 hello.txt”、“把 hello.txt 里的 你好 改成 再见”
- “运行 ls -l”
- “记住 周五开会”、“你记得 开会 吗？”
- “问我 要茶还是咖啡”"""

_REAL_MODEL = """\
To connect a real model, set OPENAI_API_KEY, OPENAI_MODEL and MODEL=openai (and OPENAI_BASE_URL for \
another server, which can be on your own machine), then restart Interlock."""

_REAL_MODEL_CHINESE = """\
要连接真正的模型，请设置 OPENAI_API_KEY、OPENAI_MODEL 和 MODEL=openai\
（OPENAI_BASE_URL 可指向其他服务器，包括本机上的），然后重新启动 Interlock。"""


def introduction(*, chinese: bool) -> str:
    if chinese:
        return (
            "我是一个内置的小演示，不是真正的语言模型：我只认得几种简单的请求，"
            "但我调用的工具、权限检查和记录都是真的。\n\n"
            f"可以试试：\n{CAN_DO_CHINESE}\n\n{_REAL_MODEL_CHINESE}"
        )
    return (
        "I am a small built-in demo, not a language model. I understand only a few plain "
        "requests, but the tools I call, the gates they pass and the log are real.\n\nTry:\n"
        f"{CAN_DO}\n\n{_REAL_MODEL}"
    )


def not_understood(*, chinese: bool) -> str:
    if chinese:
        return (
            "这句话我没听懂。我只是一个内置的小演示，只认得几种简单的请求：\n"
            f"{CAN_DO_CHINESE}\n\n{_REAL_MODEL_CHINESE}"
        )
    return (
        "I did not understand that. I am only a small built-in demo and understand these "
        f"requests:\n{CAN_DO}\n\n{_REAL_MODEL}"
    )


def describe_refusal(result: Mapping[str, Any], *, chinese: bool) -> str:
    """A refused or failed call, and what can be done about it."""
    code, tool = _text(result, "error_code"), _text(result, "tool_name")
    message = _text(result, "message") or _text(result, "stderr") or code or "?"
    step = _FOR_THE_MODEL.sub("", _text(result, "next_action")).strip()
    if chinese:
        first = _refusal_in_chinese(code, tool, _text(result, "mode"))
        return "\n".join([f"{first}（{code}：{message}）", *([f"下一步：{step}"] if step else [])])
    denied = code in {
        "MODE_DENIED",
        "TOOL_NOT_AVAILABLE",
        "PATH_DENIED",
        "COMMAND_DENIED",
        "LIMIT_EXCEEDED",
    }
    first = "I tried, but Interlock denied it" if denied else "I tried, but it did not work"
    return "\n".join([f"{first}: {message} ({code}).", *([f"What you can do: {step}"] if step else [])])


def _refusal_in_chinese(code: str, tool: str, mode: str) -> str:
    if code == "MODE_DENIED":
        return f"我试过了，但被 Interlock 拒绝：当前会话是 {mode} 模式，不允许使用 {tool}。"
    if code == "TOOL_NOT_AVAILABLE":
        return f"我试过了，但被 Interlock 拒绝：{tool} 在这里不可用。"
    if code in {"PATH_DENIED", "COMMAND_DENIED", "LIMIT_EXCEEDED"}:
        return "我试过了，但被 Interlock 拒绝：这个路径、命令或大小不被允许。"
    return "我试过了，但没有成功。"


@dataclass(frozen=True, slots=True)
class DemoResult:
    """A call and its result, to be described to the person."""

    tool: str
    arguments: Mapping[str, Any]
    result: Mapping[str, Any]
    chinese: bool

    @property
    def output(self) -> str:
        return _text(self.result, "stdout")

    @property
    def is_command_that_failed(self) -> bool:
        """It ran, and its output says why it failed."""
        ran = self.tool in {"bash", "bash_readonly"} and "stdout" in self.result
        return ran and _text(self.result, "error_code") == "EXECUTION_ERROR"

    def said(self, english: str, chinese: str) -> str:
        return chinese if self.chinese else english


def describe_result(told: DemoResult) -> str:
    if told.result.get("ok") is not True and not told.is_command_that_failed:
        return describe_refusal(told.result, chinese=told.chinese)
    return _WORDS.get(told.tool, _anything)(told)


def _anything(told: DemoResult) -> str:
    return _shown(told.said("The result:", "结果："), told)


def _time(told: DemoResult) -> str:
    now = told.output.strip()
    return told.said(f"It is {now}.", f"现在是 {now}。")


def _listing(told: DemoResult) -> str:
    if not told.output.strip():
        return told.said("It is empty.", "那里是空的。")
    if place := told.arguments.get("path"):
        return _shown(told.said(f"Content of {place}:", f"{place} 里有："), told)
    return _shown(told.said("Files:", "这里有这些文件："), told)


def _reading(told: DemoResult) -> str:
    path = told.arguments.get("path")
    if not told.output:
        return told.said(f"{path} is empty.", f"{path} 是空文件。")
    return _shown(told.said(f"Content of {path}:", f"{path} 的内容："), told)


def _searching(told: DemoResult) -> str:
    wanted = told.arguments.get("pattern") or told.arguments.get("name_pattern")
    if not told.output.strip():
        return told.said(f"I found no {wanted}.", f"没有找到 {wanted}。")
    return _shown(told.said("Found:", "找到了："), told)


def _done(told: DemoResult) -> str:
    what = told.output.strip()
    return told.said(f"Done: {what}", f"完成：{what}")


def _recalling(told: DemoResult) -> str:
    found = told.output.strip()
    return told.said(f"From memory:\n{found}", f"记忆里有：\n{found}")


def _running(told: DemoResult) -> str:
    command, code = told.arguments.get("cmd"), told.result.get("exit_code", 0)
    first = told.said(f"I ran {command}; its exit code is {code}.", f"已运行 {command}，退出码 {code}。")
    both = "\n".join(filter(None, [told.output, _text(told.result, "stderr")]))
    return _shown(first, told, both) if both.strip() else first


def _answered(told: DemoResult) -> str:
    answer = _in_words(told)
    return told.said(f"Thank you. You answered: {answer}", f"谢谢，你的回答是：{answer}")


def _in_words(told: DemoResult) -> str:
    """An answer to the demo's own question, a choice or a yes, in plain words."""
    answer = told.output.strip()
    try:
        match orjson.loads(answer):
            case {"choices": [*choices]}:
                return ", ".join(map(str, choices))
            case {"confirmed": bool(confirmed)}:
                return told.said("yes", "是") if confirmed else told.said("no", "否")
    except orjson.JSONDecodeError:
        pass
    return answer


_WORDS: dict[str, Callable[[DemoResult], str]] = {
    "current_time": _time,
    "list_files": _listing,
    "read_file": _reading,
    "search_files": _searching,
    "find_files": _searching,
    "write_file": _done,
    "edit_file": _done,
    "memory_append": _done,
    "memory_search": _recalling,
    "bash": _running,
    "bash_readonly": _running,
    "ask_user": _answered,
}


def _shown(first: str, told: DemoResult, output: str | None = None) -> str:
    """The first lines of an output, in a fence that nothing in it can close."""
    lines = (told.output if output is None else output).rstrip("\n").split("\n")
    kept = [line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}…" for line in lines[:MAX_LINES]]
    ticks = max((len(run) for run in re.findall(r"`{3,}", "\n".join(kept))), default=2) + 1
    fence = "`" * ticks
    text = "\n".join([first, fence, *kept, fence])
    if hidden := len(lines) - len(kept):
        text += told.said(f"\n({hidden} more lines)", f"\n（还有 {hidden} 行）")
    if told.result.get("next_page_cursor"):
        text += told.said("\n(truncated)", "\n（后面还有更多）")
    return text


def _text(result: Mapping[str, Any], key: str) -> str:
    value = result.get(key)
    return value if isinstance(value, str) else ""
