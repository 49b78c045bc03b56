"""Programs that run another program, as data: what may stand before it."""

import re
from typing import TypeAlias

from interlock.infra.records import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """A program with its arguments, and the folder it is started in where that is another one."""

    words: tuple[str, ...]
    is_recursive: bool = False
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class Code:
    """Text for a shell, with its arguments and what it is called (`$0`)."""

    text: str
    arguments: tuple[str, ...] = ()
    called: str | None = None


Inner: TypeAlias = Words | Code

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How to find the program in the arguments: options with a value, other words before it.

    A letter that is `glued` has a value only within the same word: `-i` and `-i@`, never `-i @`.
    `folder` is the option, short and long, that says where the program is started.
    """

    values: str = ""
    long_values: tuple[str, ...] = ()
    glued: str = ""
    skipped: int = 0
    assignments: bool = False
    only_looks: str = ""
    folder: tuple[str, str] | None = None

    def inner(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """The words from the program on that is to be run."""
        index = 1
        while index < len(words):
            word = words[index]
            if word == "--":
                index += 1
                break
            if word.startswith("-") and len(word) > 1:
                if set(word[1:2]) & set(self.only_looks):
                    return ()
                index += 2 if self.takes_next(word) else 1
            elif word == "-" or (self.assignments and _ASSIGNMENT.match(word)):
                index += 1
            else:
                break
        while self.assignments and index < len(words) and _ASSIGNMENT.match(words[index]):
            index += 1
        return words[index + self.skipped :]

    def operands(self, words: tuple[str, ...]) -> list[str]:
        """The words that are neither options nor values of options."""
        found: list[str] = []
        is_value = False
        for word in words[1:]:
            is_option = word.startswith("-") and len(word) > 1
            if not is_value and not is_option:
                found.append(word)
            is_value = is_option and not is_value and self.takes_next(word)
        return found

    def takes_next(self, option: str) -> bool:
        """Whether the next word is its value. A long one may be cut short, as GNU programs allow."""
        if option.startswith("--"):
            return any(long.startswith(option[2:]) for long in self.long_values)
        for index, letter in enumerate(option[1:], 2):
            if letter in self.glued:
                return False
            if letter in self.values:
                return index == len(option)
        return False


_TORSOCKS = Wrapper("upaP", ("user", "pass", "address", "port"))
_PROXYCHAINS = Wrapper("f")
_TINI = Wrapper("pe")
DAEMON = Wrapper(
    "pxnugcsardNPIkOR",
    (
        *("pid", "ppid", "pidfile", "exec", "name", "user", "group", "chuid", "signal", "startas"),
        *("chroot", "chdir", "nicelevel", "procsched", "iosched", "umask", "notify-timeout", "output"),
        "retry",
    ),
)
_TIMER = ("on-active", "on-boot", "on-startup", "on-unit-active", "on-unit-inactive", "on-calendar")

WRAPPERS = {
    "env": Wrapper("uCS", ("unset", "chdir", "split-string"), assignments=True, folder=("C", "chdir")),
    "sudo": Wrapper(
        "ugpChrtTDR", ("user", "group", "prompt", "host", "chdir", "role", "type"), assignments=True
    ),
    "doas": Wrapper("uC", assignments=True),
    "nohup": Wrapper(),
    "setsid": Wrapper(),
    "command": Wrapper(only_looks="vV"),
    "builtin": Wrapper(),
    "exec": Wrapper("a"),
    "time": Wrapper("of", ("output", "format")),
    "nice": Wrapper("n", ("adjustment",)),
    "ionice": Wrapper("cnpPu", ("class", "classdata", "pid")),
    "chrt": Wrapper("pTPD", skipped=1),
    "taskset": Wrapper("p", skipped=1),
    "timeout": Wrapper("sk", ("signal", "kill-after"), skipped=1),
    "stdbuf": Wrapper("ioe", ("input", "output", "error")),
    "unbuffer": Wrapper(),
    "setarch": Wrapper(),
    **dict.fromkeys(("linux32", "linux64", "uname26", "x86_64", "i386", "i486", "i586", "i686"), Wrapper()),
    "numactl": Wrapper(
        "iwpPcNCmSfoLMI",
        (
            *("interleave", "weighted-interleave", "preferred", "preferred-many", "cpubind", "cpunodebind"),
            *("physcpubind", "membind", "shm", "file", "offset", "length", "shmmode", "shmid"),
        ),
    ),
    "prlimit": Wrapper("op", ("output", "pid"), glued="cdefilmnqrstuvxy"),
    "cpulimit": Wrapper("lpePcs", ("limit", "pid", "exe", "path", "cpu", "signal")),
    "torsocks": _TORSOCKS,
    "torify": _TORSOCKS,
    "tsocks": Wrapper(),
    "proxychains": _PROXYCHAINS,
    "proxychains3": _PROXYCHAINS,
    "proxychains4": _PROXYCHAINS,
    "tini": _TINI,
    "tini-static": _TINI,
    "docker-init": _TINI,
    "dumb-init": Wrapper("r", ("rewrite",)),
    "firejail": Wrapper(),
    "runcon": Wrapper("utrl", ("user", "type", "role", "range")),
    "faketime": Wrapper("f", skipped=1),
    "strace": Wrapper("aeIoOpPsSuUEX", ("output", "trace")),
    "ltrace": Wrapper("aeloxnpsuAF"),
    "flock": Wrapper("wE", ("timeout", "wait", "conflict-exit-code"), skipped=1),
    "chroot": Wrapper("", ("userspec", "groups"), skipped=1),
    "unshare": Wrapper(
        "SGRw",
        (
            *("setuid", "setgid", "root", "wd", "propagation", "setgroups", "monotonic", "boottime"),
            *("map-user", "map-group", "map-users", "map-groups"),
        ),
        folder=("w", "wd"),
    ),
    "nsenter": Wrapper("tSGW", ("target", "setuid", "setgid", "wdns"), glued="muinpCUTrw"),
    "setpriv": Wrapper(
        "",
        (
            *("reuid", "regid", "ruid", "euid", "rgid", "egid", "groups", "ambient-caps", "inh-caps"),
            *("bounding-set", "securebits", "pdeathsig", "selinux-label", "apparmor-profile"),
        ),
    ),
    "systemd-run": Wrapper(
        "pMuHEC",
        (
            *("unit", "property", "uid", "gid", "slice", "description", "nice", "setenv", "host"),
            *("machine", "capsule"),
            *("working-directory", "service-type", "path-property", "socket-property", "timer-property"),
            *_TIMER,
        ),
    ),
    "systemd-inhibit": Wrapper("", ("what", "who", "why", "mode")),
    "systemd-cat": Wrapper("tp", ("identifier", "priority", "stderr-priority", "level-prefix")),
    "cgexec": Wrapper("g"),
    "rlwrap": Wrapper(
        "bCDefgHlMOPqsStwz",
        (
            *("break-chars", "command-name", "history-no-dupes", "extra-char-after-completion", "file"),
            *("forget-matching", "history-filename", "logfile", "multi-line-ext", "only-cook", "pre-given"),
            *("quote-characters", "histsize", "substitute-prompt", "set-term-name", "wait-before-prompt"),
            "filter",
        ),
        glued="aAmp",
    ),
    "dbus-run-session": Wrapper(),
    "xvfb-run": Wrapper("efnps", ("server-args", "server-num", "error-file")),
    "catchsegv": Wrapper(),
    "script": Wrapper(
        "IOBTmEo",
        ("log-in", "log-out", "log-io", "log-timing", "logging-format", "echo", "output-limit"),
        glued="t",
        skipped=1,
    ),
    "caffeinate": Wrapper("tw"),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "pkexec": Wrapper("", ("user",)),
    "xargs": Wrapper(
        "aEILnPsdJR",
        ("arg-file", "max-args", "max-procs", "max-chars", "process-slot-var", "delimiter"),
        glued="iel",
    ),
    "parallel": Wrapper("jNnILaS", ("jobs", "max-args", "arg-file", "colsep", "timeout", "joblog")),
    "watch": Wrapper("nqs", ("interval", "equexit")),
    "valgrind": Wrapper(),
    "fakeroot": Wrapper("lfisb", ("lib", "faked")),
    "eatmydata": Wrapper(),
    "choom": Wrapper("np", ("adjust", "pid")),
    "chronic": Wrapper(),
    "ifne": Wrapper(),
    "entr": Wrapper(),
    "ssh-agent": Wrapper("aEOPt"),
    "dbus-launch": Wrapper("", ("config-file",)),
    "chpst": Wrapper("uUbe/nlLmdorpftc"),
    "screen": Wrapper("cehpsStTX", only_looks="lrxRX"),
    "npx": Wrapper("pcw", ("package", "call", "workspace")),
    "cross-env": Wrapper(assignments=True),
    "shx": Wrapper(),
    "dotenv": Wrapper("ecv"),
    "watchexec": Wrapper(
        "wefijsd", ("watch", "exts", "filter", "ignore", "shell", "signal", "delay-run", "debounce")
    ),
}

# Programs of which one subcommand runs another program.
_EXEC = Wrapper("pcw", ("package", "call", "workspace"))
_ENVIRONMENT = Wrapper("npm", ("name", "prefix", "cwd"))
SUBCOMMANDS = {
    ("uv", "run"): Wrapper(
        "pPim",
        (
            *("with", "with-editable", "with-requirements", "extra", "group", "only-group", "package"),
            *("python", "project", "directory", "env-file", "index", "index-url", "module"),
        ),
    ),
    ("poetry", "run"): Wrapper("CP", ("directory", "project")),
    ("pipenv", "run"): Wrapper(),
    ("pdm", "run"): Wrapper("p", ("project", "venv")),
    ("bundle", "exec"): Wrapper("", ("gemfile",)),
    ("npm", "exec"): _EXEC,
    ("pnpm", "exec"): _EXEC,
    ("yarn", "exec"): _EXEC,
    ("conda", "run"): _ENVIRONMENT,
    ("mamba", "run"): _ENVIRONMENT,
    ("direnv", "exec"): Wrapper(skipped=1),
    ("rustup", "run"): Wrapper(skipped=1),
    ("hatch", "run"): Wrapper(),
    ("rye", "run"): Wrapper(),
    ("pixi", "run"): Wrapper("e", ("environment", "manifest-path")),
    **dict.fromkeys((("rbenv", "exec"), ("pyenv", "exec"), ("asdf", "exec"), ("mise", "exec")), Wrapper()),
    ("perf", "stat"): Wrapper(
        "eopCrIxGmtMD", ("event", "output", "pid", "tid", "cpu", "repeat", "delay", "cgroup", "filter")
    ),
    ("perf", "record"): Wrapper(
        "eopCcFmtujMD", ("event", "output", "pid", "tid", "cpu", "count", "freq", "call-graph", "filter")
    ),
    **{
        ("tmux", name): Wrapper("bcefFnstxyl")
        for name in (
            "new",
            "new-session",
            "neww",
            "new-window",
            "splitw",
            "split-window",
            "run",
            "run-shell",
        )
    },
}
