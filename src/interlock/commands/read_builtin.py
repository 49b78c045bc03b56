"""The variables set by `read` and `mapfile`, if their input is known."""

from interlock.commands.expansion import MAX_VARIANTS, ShellScope
from interlock.commands.word_parser import UNKNOWN

READ_BUILTINS = frozenset({"read", "mapfile", "readarray"})

_VALUES = {"read": "adinNptu", "mapfile": "dnOsucC", "readarray": "dnOsucC"}


def apply_read_builtin(words: tuple[str, ...], text: str | None, scope: ShellScope) -> None:
    """Set the variables that these words name; unknown input sets them to `UNKNOWN`."""
    names, options = _names(words)
    array = options.get("a")
    if text is None or "u" in options or UNKNOWN in text:
        for name in (*names, *filter(None, [array])):
            scope.set(name, (UNKNOWN,))
    elif words[0] != "read":
        scope.set(names[0] if names else "MAPFILE", tuple(text.splitlines()[:MAX_VARIANTS]))
    elif array:
        scope.set(array, tuple(scope.split("".join(text.splitlines()[:1]))))
    else:
        _set_fields(names or ["REPLY"], _records(text, options.get("d")), scope)


def _names(words: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    names: list[str] = []
    options: dict[str, str] = {}
    index = 1
    while index < len(words):
        word = words[index]
        index += 1
        if not word.startswith("-"):
            names.append(word)
            continue
        for at, letter in enumerate(word[1:], 2):
            if letter in _VALUES[words[0]]:
                is_last = at == len(word)
                options[letter] = "".join(words[index : index + 1]) if is_last else word[at:]
                index += is_last
                break
    return [name for name in names if name.isidentifier()], options


def _records(text: str, delimiter: str | None) -> list[str]:
    """The lines; with another delimiter, also the parts between those, and the whole text."""
    found = text.splitlines()[:MAX_VARIANTS]
    if delimiter is not None:
        found += [text, *(text.split(delimiter[0])[:MAX_VARIANTS] if delimiter else ())]
    return found or [""]


def _set_fields(names: list[str], records: list[str], scope: ShellScope) -> None:
    """A loop reads one record after another: each name may hold its field of any of them."""
    last = len(names) - 1
    fields = [scope.split(record.strip(), last) if last else [record.strip()] for record in records]
    for at, name in enumerate(names):
        values = tuple(each[at] if at < len(each) else "" for each in fields)
        if len(values) == 1:
            scope.set(name, values)
        else:
            scope.choose(name, values[:MAX_VARIANTS])
