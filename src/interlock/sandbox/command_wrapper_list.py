"""Programs that run another program, as data: what may stand before it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How to find the program in the arguments: options with a value, other words before it.

    A letter that is `glued` has a value only within the same word: `-i` and `-i@`, never `-i @`.
    """

    values: str = ""
    long_values: tuple[str, ...] = ()
    glued: str = ""
    skipped: int = 0
    assignments: bool = False
    only_looks: str = ""


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
    "env": Wrapper("uCS", ("unset", "chdir", "split-string"), assignments=True),
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
}
