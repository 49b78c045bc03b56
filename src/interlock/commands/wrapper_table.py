"""Programs that run another program, as data: what may precede it."""

import re
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class WrappedProgram:
    """A program with its arguments, and the directory it starts in, if another."""

    words: tuple[str, ...]
    is_recursive: bool = False
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class WrappedScript:
    """Text for a shell, with its arguments and what it is called (`$0`)."""

    text: str
    arguments: tuple[str, ...] = ()
    called: str | None = None


Wrapped: TypeAlias = WrappedProgram | WrappedScript

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)


@dataclass(frozen=True, slots=True)
class WrapperSpec:
    """How to find the program in the arguments: options with a value, other words before it.

    A letter that is `glued` has a value only within the same word: `-i` and `-i@`, never `-i @`. `folder`
    is the option, short and long, for the directory in which the program starts.
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


_TORSOCKS = WrapperSpec("upaP", ("user", "pass", "address", "port"))
_PROXYCHAINS = WrapperSpec("f")
_TINI = WrapperSpec("pe")
DAEMON = WrapperSpec(
    "pxnugcsardNPIkOR",
    (
        *("pid", "ppid", "pidfile", "exec", "name", "user", "group", "chuid", "signal", "startas"),
        *("chroot", "chdir", "nicelevel", "procsched", "iosched", "umask", "notify-timeout", "output"),
        "retry",
    ),
)
_TIMER = ("on-active", "on-boot", "on-startup", "on-unit-active", "on-unit-inactive", "on-calendar")

WRAPPERS = {
    "env": WrapperSpec("uCS", ("unset", "chdir", "split-string"), assignments=True, folder=("C", "chdir")),
    "sudo": WrapperSpec(
        "ugpChrtTDR", ("user", "group", "prompt", "host", "chdir", "role", "type"), assignments=True
    ),
    "doas": WrapperSpec("uC", assignments=True),
    "nohup": WrapperSpec(),
    "setsid": WrapperSpec(),
    "command": WrapperSpec(only_looks="vV"),
    "builtin": WrapperSpec(),
    "exec": WrapperSpec("a"),
    "time": WrapperSpec("of", ("output", "format")),
    "nice": WrapperSpec("n", ("adjustment",)),
    "ionice": WrapperSpec("cnpPu", ("class", "classdata", "pid")),
    "chrt": WrapperSpec("pTPD", skipped=1),
    "taskset": WrapperSpec("p", skipped=1),
    "timeout": WrapperSpec("sk", ("signal", "kill-after"), skipped=1),
    "stdbuf": WrapperSpec("ioe", ("input", "output", "error")),
    "unbuffer": WrapperSpec(),
    "setarch": WrapperSpec(),
    **dict.fromkeys(
        ("linux32", "linux64", "uname26", "x86_64", "i386", "i486", "i586", "i686"), WrapperSpec()
    ),
    "numactl": WrapperSpec(
        "iwpPcNCmSfoLMI",
        (
            *("interleave", "weighted-interleave", "preferred", "preferred-many", "cpubind", "cpunodebind"),
            *("physcpubind", "membind", "shm", "file", "offset", "length", "shmmode", "shmid"),
        ),
    ),
    "prlimit": WrapperSpec("op", ("output", "pid"), glued="cdefilmnqrstuvxy"),
    "cpulimit": WrapperSpec("lpePcs", ("limit", "pid", "exe", "path", "cpu", "signal")),
    "torsocks": _TORSOCKS,
    "torify": _TORSOCKS,
    "tsocks": WrapperSpec(),
    "proxychains": _PROXYCHAINS,
    "proxychains3": _PROXYCHAINS,
    "proxychains4": _PROXYCHAINS,
    "tini": _TINI,
    "tini-static": _TINI,
    "docker-init": _TINI,
    "dumb-init": WrapperSpec("r", ("rewrite",)),
    "firejail": WrapperSpec(),
    "runcon": WrapperSpec("utrl", ("user", "type", "role", "range")),
    "faketime": WrapperSpec("f", skipped=1),
    "strace": WrapperSpec("aeIoOpPsSuUEX", ("output", "trace")),
    "ltrace": WrapperSpec("aeloxnpsuAF"),
    "flock": WrapperSpec("wE", ("timeout", "wait", "conflict-exit-code"), skipped=1),
    "chroot": WrapperSpec("", ("userspec", "groups"), skipped=1),
    "unshare": WrapperSpec(
        "SGRw",
        (
            *("setuid", "setgid", "root", "wd", "propagation", "setgroups", "monotonic", "boottime"),
            *("map-user", "map-group", "map-users", "map-groups"),
        ),
        folder=("w", "wd"),
    ),
    "nsenter": WrapperSpec("tSGW", ("target", "setuid", "setgid", "wdns"), glued="muinpCUTrw"),
    "setpriv": WrapperSpec(
        "",
        (
            *("reuid", "regid", "ruid", "euid", "rgid", "egid", "groups", "ambient-caps", "inh-caps"),
            *("bounding-set", "securebits", "pdeathsig", "selinux-label", "apparmor-profile"),
        ),
    ),
    "systemd-run": WrapperSpec(
        "pMuHEC",
        (
            *("unit", "property", "uid", "gid", "slice", "description", "nice", "setenv", "host"),
            *("machine", "capsule"),
            *("working-directory", "service-type", "path-property", "socket-property", "timer-property"),
            *_TIMER,
        ),
    ),
    "systemd-inhibit": WrapperSpec("", ("what", "who", "why", "mode")),
    "systemd-cat": WrapperSpec("tp", ("identifier", "priority", "stderr-priority", "level-prefix")),
    "cgexec": WrapperSpec("g"),
    "rlwrap": WrapperSpec(
        "bCDefgHlMOPqsStwz",
        (
            *("break-chars", "command-name", "history-no-dupes", "extra-char-after-completion", "file"),
            *("forget-matching", "history-filename", "logfile", "multi-line-ext", "only-cook", "pre-given"),
            *("quote-characters", "histsize", "substitute-prompt", "set-term-name", "wait-before-prompt"),
            "filter",
        ),
        glued="aAmp",
    ),
    "dbus-run-session": WrapperSpec(),
    "xvfb-run": WrapperSpec("efnps", ("server-args", "server-num", "error-file")),
    "catchsegv": WrapperSpec(),
    "script": WrapperSpec(
        "IOBTmEo",
        ("log-in", "log-out", "log-io", "log-timing", "logging-format", "echo", "output-limit"),
        glued="t",
        skipped=1,
    ),
    "caffeinate": WrapperSpec("tw"),
    "busybox": WrapperSpec(),
    "toybox": WrapperSpec(),
    "pkexec": WrapperSpec("", ("user",)),
    "xargs": WrapperSpec(
        "aEILnPsdJR",
        ("arg-file", "max-args", "max-procs", "max-chars", "process-slot-var", "delimiter"),
        glued="iel",
    ),
    "parallel": WrapperSpec("jNnILaS", ("jobs", "max-args", "arg-file", "colsep", "timeout", "joblog")),
    "watch": WrapperSpec("nqs", ("interval", "equexit")),
    "valgrind": WrapperSpec(),
    "fakeroot": WrapperSpec("lfisb", ("lib", "faked")),
    "eatmydata": WrapperSpec(),
    "choom": WrapperSpec("np", ("adjust", "pid")),
    "chronic": WrapperSpec(),
    "ifne": WrapperSpec(),
    "entr": WrapperSpec(),
    "ssh-agent": WrapperSpec("aEOPt"),
    "dbus-launch": WrapperSpec("", ("config-file",)),
    "chpst": WrapperSpec("uUbe/nlLmdorpftc"),
    "screen": WrapperSpec("cehpsStTX", only_looks="lrxRX"),
    "npx": WrapperSpec("pcw", ("package", "call", "workspace")),
    "cross-env": WrapperSpec(assignments=True),
    "shx": WrapperSpec(),
    "dotenv": WrapperSpec("ecv"),
    "watchexec": WrapperSpec(
        "wefijsd", ("watch", "exts", "filter", "ignore", "shell", "signal", "delay-run", "debounce")
    ),
}

# Programs of which one subcommand runs another program.
_EXEC = WrapperSpec("pcw", ("package", "call", "workspace"))
_ENVIRONMENT = WrapperSpec("npm", ("name", "prefix", "cwd"))
SUBCOMMANDS = {
    ("uv", "run"): WrapperSpec(
        "pPim",
        (
            *("with", "with-editable", "with-requirements", "extra", "group", "only-group", "package"),
            *("python", "project", "directory", "env-file", "index", "index-url", "module"),
        ),
    ),
    ("poetry", "run"): WrapperSpec("CP", ("directory", "project")),
    ("pipenv", "run"): WrapperSpec(),
    ("pdm", "run"): WrapperSpec("p", ("project", "venv")),
    ("bundle", "exec"): WrapperSpec("", ("gemfile",)),
    ("npm", "exec"): _EXEC,
    ("pnpm", "exec"): _EXEC,
    ("yarn", "exec"): _EXEC,
    ("conda", "run"): _ENVIRONMENT,
    ("mamba", "run"): _ENVIRONMENT,
    ("direnv", "exec"): WrapperSpec(skipped=1),
    ("rustup", "run"): WrapperSpec(skipped=1),
    ("hatch", "run"): WrapperSpec(),
    ("rye", "run"): WrapperSpec(),
    ("pixi", "run"): WrapperSpec("e", ("environment", "manifest-path")),
    **dict.fromkeys(
        (("rbenv", "exec"), ("pyenv", "exec"), ("asdf", "exec"), ("mise", "exec")), WrapperSpec()
    ),
    ("perf", "stat"): WrapperSpec(
        "eopCrIxGmtMD", ("event", "output", "pid", "tid", "cpu", "repeat", "delay", "cgroup", "filter")
    ),
    ("perf", "record"): WrapperSpec(
        "eopCcFmtujMD", ("event", "output", "pid", "tid", "cpu", "count", "freq", "call-graph", "filter")
    ),
    **{
        ("tmux", name): WrapperSpec("bcefFnstxyl")
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
