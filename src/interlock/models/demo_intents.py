"""Finds a demo request in a sentence of English or Chinese."""
# ruff: noqa: RUF001 - the punctuation of Chinese is meant

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import re2


class DemoIntentKind(StrEnum):
    greeting = "greeting"
    time = "time"
    listing = "listing"
    reading = "reading"
    searching = "searching"
    finding = "finding"
    writing = "writing"
    appending = "appending"
    editing = "editing"
    running = "running"
    remembering = "remembering"
    recalling = "recalling"
    asking = "asking"
    unknown = "unknown"


@dataclass(frozen=True, slots=True)
class DemoIntent:
    """`path` is a file or directory, `text` what else is needed, `other` the replacement of the text.

    `or_path` is another name for a file that does not exist: in "read my notes.txt" the first word may be a
    part of it, or not.
    """

    kind: DemoIntentKind
    path: str = ""
    text: str = ""
    other: str = ""
    or_path: str = ""


ZONES = {
    "zurich": "Europe/Zurich",
    "london": "Europe/London",
    "paris": "Europe/Paris",
    "berlin": "Europe/Berlin",
    "new york": "America/New_York",
    "san francisco": "America/Los_Angeles",
    "los angeles": "America/Los_Angeles",
    "tokyo": "Asia/Tokyo",
    "shanghai": "Asia/Shanghai",
    "beijing": "Asia/Shanghai",
    "singapore": "Asia/Singapore",
    "hong kong": "Asia/Hong_Kong",
    "sydney": "Australia/Sydney",
    "苏黎世": "Europe/Zurich",
    "伦敦": "Europe/London",
    "巴黎": "Europe/Paris",
    "柏林": "Europe/Berlin",
    "纽约": "America/New_York",
    "东京": "Asia/Tokyo",
    "上海": "Asia/Shanghai",
    "北京": "Asia/Shanghai",
    "新加坡": "Asia/Singapore",
    "香港": "Asia/Hong_Kong",
}
# Plain requests are short.
_LONGEST = 4000
_MOST_WORDS = 6
_OF_SENTENCES = frozenset(
    {
        *(
            "a",
            "about",
            "an",
            "and",
            "are",
            "as",
            "at",
            "by",
            "do",
            "for",
            "from",
            "how",
            "if",
            "in",
            "into",
        ),
        *("is", "of", "on", "or", "please", "than", "that", "the", "then", "to", "what", "when", "where"),
        *("which", "who", "why", "will", "with", "you"),
    }
)
_ZONE_NAME = re.compile(r"\b(?:[A-Z][A-Za-z_]+/[A-Z][A-Za-z_/]+|UTC)\b")
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_QUOTES = re.compile(r"\A(?:\"(.*)\"|'(.*)'|“(.*)”|「(.*)」|`(.*)`)\Z", re.DOTALL)


def is_chinese(text: str) -> bool:
    return _CHINESE.search(text) is not None


def parse_intent(text: str) -> DemoIntent:
    """The first pattern that fits. The order is from the most to the least specific."""
    sentence = text.strip()
    if len(sentence) > _LONGEST:
        return DemoIntent(DemoIntentKind.unknown)
    for pattern, make in _PATTERNS:
        if found := pattern.search(sentence):
            groups = {name: _bare(value) for name, value in found.groupdict().items() if value}
            if intent := make(groups):
                return intent
    return DemoIntent(DemoIntentKind.unknown)


def find_time_zone(text: str) -> str:
    """The time zone named in a question about the time, if any."""
    if named := _ZONE_NAME.search(text):
        return named[0]
    lowered = text.lower()
    return next((zone for city, zone in ZONES.items() if city in lowered), "")


def _bare(text: str) -> str:
    """Without quotes around it, or the sentence's own punctuation behind it."""
    text = text.strip()
    if quoted := _QUOTES.match(text):
        return next(part for part in quoted.groups() if part is not None)
    return text.rstrip("。！？!?") if len(text) > 1 else text


def _path(text: str) -> str:
    return _bare(text if set(text) <= {".", "/"} else text.rstrip(".,;:，；： "))


Groups = dict[str, str]
Make = Callable[[Groups], DemoIntent | None]


def _making(kind: DemoIntentKind) -> Callable[[Groups], DemoIntent]:
    def make(found: Groups) -> DemoIntent:
        return DemoIntent(kind, _path(found.get("path", "")), found.get("text", ""), found.get("other", ""))

    return make


def _making_of_words(kind: DemoIntentKind) -> Make:
    """For a name of several words; None if they read like a sentence."""
    making = _making(kind)

    def make(found: Groups) -> DemoIntent | None:
        intent = making(found)
        words = intent.path.split()
        if len(words) > _MOST_WORDS or not _OF_SENTENCES.isdisjoint(intent.path.lower().split()):
            return None
        return replace(intent, or_path=words[-1] if len(words) > 1 else intent.path.removeprefix("我的"))

    return make


def _ways(
    kind: DemoIntentKind, *patterns: str, making: Callable[[DemoIntentKind], Make] = _making
) -> list[tuple[Any, Make]]:
    # In linear time, whatever a person writes.
    return [(re2.compile(f"(?is){pattern}"), making(kind)) for pattern in patterns]


_PLEASE = r"\A(?:please\s+|can you\s+|could you\s+|请|请你|帮我|请帮我)?\s*"
_THE_FILE = r"(?:the\s+|a\s+)?(?:new\s+)?(?:file\s+|folder\s+)?"
# Looks like a file name: with a dot or a slash in it, or in quotes.
_LETTER = r"[^\s\x{3000}-\x{303f}\x{4e00}-\x{9fff}\x{ff00}-\x{ffef}\"'“”「」`,;:!?]"
_FILE = rf"(?P<path>[\"'“「`][^\"'”」`]+[\"'”」`]|{_LETTER}*(?:\.\w|/){_LETTER}*)"
_WHERE = r"(?P<path>\S+)"
# A name without quotes that has spaces or Chinese in it: it ends like a file name, and nothing follows it.
_NO_NAME = r"\n\"'“”「」`,;:!?，。；：！？、"
_WORDS = rf"(?P<path>[^\s/{_NO_NAME}][^{_NO_NAME}]*\.\w{{1,8}})[.!?。！？]?\s*\z"
_TEXT, _ANYTHING = r"(?P<text>\S.*?)", r"(?P<text>\S.*)\z"

_PATTERNS = [
    *_ways(
        DemoIntentKind.remembering,
        rf"{_PLEASE}(?:remember|note|keep in mind|make a note)\b(?:\s+that\b|\s*:)?\s+{_ANYTHING}",
        rf"{_PLEASE}(?:记住|记下来?|记一下)[\s:：,，]*{_ANYTHING}",
    ),
    *_ways(
        DemoIntentKind.recalling,
        rf"\bwhat do you (?:remember|know) about\s+{_TEXT}\??\z",
        rf"\b(?:do you remember|what did i (?:say|tell you) about)\s+{_TEXT}\??\z",
        rf"{_PLEASE}(?:recall|search (?:your |the )?memory for)\s+{_TEXT}\??\z",
        rf"关于\s*{_TEXT}\s*[,，]?\s*你?还?记得(?:什么|些什么)",
        rf"你?还?记得\s*{_TEXT}\s*[吗么]?[?？]?\z",
        rf"{_PLEASE}(?:回忆一?下?|(?:查|搜索|搜)一?下?记忆[里中]?的?)\s*{_ANYTHING}",
    ),
    *_ways(
        DemoIntentKind.asking,
        rf"{_PLEASE}ask me\b\s*(?P<text>.*)\z",
        rf"{_PLEASE}(?:问我|向我提问)\s*(?P<text>.*)\z",
    ),
    *_ways(
        DemoIntentKind.running,
        rf"{_PLEASE}(?:run|execute)(?:\s+the)?(?:\s+command)?[\s:]+{_ANYTHING}",
        rf"\A\$\s+{_ANYTHING}",
        rf"{_PLEASE}(?:运行|执行)一?下?(?:命令)?[\s:：]*{_ANYTHING}",
    ),
    *_ways(
        DemoIntentKind.editing,
        rf"{_PLEASE}(?:replace|change)\s+{_TEXT}\s+(?:with|to|by)\s+(?P<other>.+?)\s+in\s+{_THE_FILE}{_WHERE}\z",
        rf"{_PLEASE}in\s+{_WHERE},?\s+(?:replace|change)\s+{_TEXT}\s+(?:with|to|by)\s+(?P<other>.+)\z",
        rf"[把将在]\s*{_FILE}\s*[里中]的?\s*[把将]?\s*{_TEXT}\s*"
        r"(?:改成|改为|换成|替换成|替换为)\s*(?P<other>\S.*)\z",
    ),
    *_ways(
        DemoIntentKind.appending,
        rf"{_PLEASE}(?:append|add)\s+{_TEXT}\s+to\s+(?:the\s+)?(?:end of\s+)?{_THE_FILE}{_FILE}\s*\z",
        rf"[把将]\s*{_TEXT}\s*(?:追加到|加到|添加到)\s*(?:文件)?\s*{_FILE}",
    ),
    *_ways(
        DemoIntentKind.writing,
        rf"{_PLEASE}(?:write|save|put)\s+{_TEXT}\s+(?:to|into|in|as)\s+{_THE_FILE}{_FILE}\s*\z",
        rf"{_PLEASE}(?:create|make|write)\s+{_THE_FILE}(?:named\s+|called\s+)?{_FILE}"
        rf"\s*(?:with|containing|saying|that says|:)(?:\s+the)?(?:\s+(?:text|content))?\s*{_ANYTHING}",
        rf"[把将]\s*{_TEXT}\s*(?:写入|写到|写进|保存到|存到)\s*(?:文件)?\s*{_FILE}",
        rf"{_PLEASE}(?:创建|新建|写)一?个?(?:文件)?\s*{_FILE}\s*[,，]?\s*(?:内容)?[为是:：]*\s*{_ANYTHING}",
    ),
    *_ways(
        DemoIntentKind.finding,
        rf"{_PLEASE}find\s+(?:all\s+)?(?:the\s+)?files?\s+(?:named|called|matching|like)\s+(?P<text>\S+)",
        rf"{_PLEASE}(?:查找|找|找到)一?下?(?:名为|叫做?|名字是)\s*(?P<text>\S+?)\s*的文件",
    ),
    *_ways(
        DemoIntentKind.searching,
        rf"{_PLEASE}(?:search|grep|look)(?:\s+for)?\s+{_TEXT}\s+in\s+{_THE_FILE}{_FILE}\s*\z",
        rf"{_PLEASE}(?:search|grep|look)(?:\s+(?:all\s+)?(?:the\s+)?files)?(?:\s+for)?\s+{_ANYTHING}",
        rf"{_PLEASE}find\s+{_TEXT}\s+in\s+(?:the\s+|my\s+)?files\z",
        rf"在\s*{_FILE}\s*[里中]?\s*(?:搜索|查找|搜|找)一?下?\s*{_ANYTHING}",
        rf"{_PLEASE}(?:搜索|查找|搜)一?下?\s*{_ANYTHING}",
    ),
    *_ways(
        DemoIntentKind.listing,
        rf"{_PLEASE}(?:list|show)\b.*\b(?:files|folder|directory|contents)\b.*?\bin\s+{_THE_FILE}{_WHERE}\z",
        rf"{_PLEASE}(?:ls|list)\s+(?:the\s+)?(?:folder\s+|directory\s+)?{_FILE}\s*\z",
        rf"{_PLEASE}(?:list|show)\b.*\b(?:files|folder|directory)\b",
        r"\A(?:ls|dir|list)\z",
        r"\b(?:what|which) files\b",
        rf"{_PLEASE}(?:列出|显示|看看|查看)一?下?\s*{_FILE}\s*(?:目录|文件夹)",
        r"(?:列出|显示|看看).*(?:文件|目录)|(?:有|是)(?:哪些|什么)文件|目录[里中下]有(?:什么|哪些)",
    ),
    *_ways(
        DemoIntentKind.reading,
        rf"{_PLEASE}(?:read|open|show|cat|print|display)\s+(?:me\s+)?{_THE_FILE}{_FILE}",
        rf"\bwhat(?:'s| is| does)\s+(?:in\s+)?{_THE_FILE}{_FILE}",
        rf"{_PLEASE}(?:read|open|cat)\s+{_THE_FILE}{_WHERE}\z",
        rf"{_PLEASE}(?:读取|读一下|读|打开|查看|显示|看看|看一下)一?下?(?:文件)?\s*{_FILE}",
        rf"{_FILE}\s*(?:的内容|[里中](?:有什么|写了什么|是什么))",
    ),
    *_ways(
        DemoIntentKind.reading,
        rf"{_PLEASE}(?:read|open|show|cat|print|display)\s+(?:me\s+)?{_THE_FILE}{_WORDS}",
        rf"\Awhat(?:'s| is)\s+in\s+{_THE_FILE}{_WORDS}",
        rf"{_PLEASE}(?:读取|读一下|读|打开|查看|显示|看看|看一下)一?下?(?:文件)?\s*{_WORDS}",
        making=_making_of_words,
    ),
    *_ways(
        DemoIntentKind.appending,
        rf"{_PLEASE}(?:append|add)\s+{_TEXT}\s+to\s+(?:the\s+)?(?:end of\s+)?{_THE_FILE}{_WORDS}",
        rf"[把将]\s*{_TEXT}\s*(?:追加到|加到|添加到)\s*(?:文件)?\s*{_WORDS}",
        making=_making_of_words,
    ),
    *_ways(
        DemoIntentKind.writing,
        rf"{_PLEASE}(?:write|save|put)\s+{_TEXT}\s+(?:to|into|in|as)\s+{_THE_FILE}{_WORDS}",
        rf"[把将]\s*{_TEXT}\s*(?:写入|写到|写进|保存到|存到)\s*(?:文件)?\s*{_WORDS}",
        making=_making_of_words,
    ),
    *_ways(
        DemoIntentKind.editing,
        rf"{_PLEASE}(?:replace|change)\s+{_TEXT}\s+(?:with|to|by)\s+(?P<other>.+?)\s+in\s+{_THE_FILE}{_WORDS}",
        making=_making_of_words,
    ),
    *_ways(
        DemoIntentKind.time,
        r"\b(?:what(?:'s| is)? (?:the )?(?:time|date)|current time|time is it|what day|today's date)\b",
        r"\A(?:the )?time\b",
        r"几点|时间|今天.*(?:几号|星期几|日期)|星期几",
    ),
    *_ways(
        DemoIntentKind.greeting,
        r"\A(?:help|hi|hello|hey|who are you|what are you|what can (?:you|i) do)\b",
        r"\A(?:帮助|你好|您好|你是谁|你是什么|你(?:能|会|可以)(?:做|干)(?:什么|些什么))",
    ),
]
