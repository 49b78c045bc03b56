"""Paths that a command must not remove, overwrite or open.

System and home directories as a whole, devices, and files that the system trusts. Paths are compared as
written; symlinks are left to the sandbox.
"""

import re
from enum import StrEnum
from fnmatch import fnmatchcase

from interlock.commands.expansion import unmarked
from interlock.commands.word_parser import BELOW, PATTERN, SOME, UNKNOWN
from interlock.sandbox.globs import Glob

MAX_PATH = 4096
MAX_PATTERN = 64


class PathClass(StrEnum):
    """The class of a rule's operand."""

    precious = "a system or home folder"
    system = "a system folder"
    vital = "a file that the system trusts"
    device = "a device"
    any_device = "a device, or an unknown device"


def _paths(text: str) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(path.strip("/").split("/")) for path in text.split())


_WITH_ALL_BELOW = _paths(
    "/bin /sbin /lib /lib32 /lib64 /libx32 /usr /etc /boot /dev /proc /sys /run "
    "/var/lib /var/log /var/spool /var/mail /var/backups /System /Library"
)
_THEMSELVES = _paths(
    "/var /home /opt /srv /mnt /media /root /snap /nix /Users /Applications /usr/local /usr/src "
    "/usr/local/bin /usr/local/lib /usr/local/share /usr/local/sbin /usr/local/etc"
)
_ORDINARY = _paths("/usr/local /usr/src /var/lib/apt/lists /dev/shm /run/user /dev/fd /dev/pts")
_OF_A_HOME = frozenset(
    {".ssh", ".gnupg", ".aws", ".kube", "Documents", "Desktop", "Downloads", "Pictures", "Music", "Videos"}
)
_EVERYTHING = frozenset({"*", ".*", "?*", "*.*", ".[!.]*", "..?*", ".??*", "**"})

_VITAL = tuple(
    Glob(pattern)
    for pattern in (
        "etc/{passwd,shadow,group,gshadow,subuid,subgid}{,-}",
        "etc/{sudoers,sudoers.d,doas.conf,polkit-1,pam.d,pam.conf,security}{,/**}",
        "etc/{crontab,anacrontab,cron.*}{,/**}",
        "var/spool/{cron,at,anacron}{,/**}",
        "etc/{ld.so.preload,ld.so.conf,ld.so.cache,ld.so.conf.d}{,/**}",
        "etc/{ssh,systemd,init.d,rc.d,rc?.d,rc.local,inittab,udev,profile,profile.d}{,/**}",
        "etc/{bash.bashrc,bashrc,zshenv,zsh,environment,environment.d,fstab,crypttab}{,/**}",
        "etc/{modules,modules-load.d,modprobe.d,sysctl.conf,sysctl.d,default,machine-id,login.defs}{,/**}",
        # Host names, trusted servers and packages, and network configuration.
        "etc/{hosts,hosts.allow,hosts.deny,resolv.conf,nsswitch.conf,ssl,pki,ca-certificates*}{,/**}",
        "etc/{network,netplan,NetworkManager,nftables.conf,iptables,ufw,firewalld}{,/**}",
        "etc/{apt,yum.repos.d,dnf,pacman.conf,apk,xdg/autostart}{,/**}",
        "var/lib/{dpkg,rpm,pacman,apk}/**",
        "{bin,sbin,lib,lib32,lib64,libx32,boot}/**",
        "usr/{bin,sbin,lib,lib32,lib64,libexec}/**",
        "{,usr/}lib/systemd/**",
        "proc/sysrq-trigger",
        "proc/{sys,irq,acpi}/**",
        "proc/*/{mem,oom_adj}",
        "sys/**",
        "{root,home/*}/.ssh/{authorized_keys,authorized_keys2,rc}",
        "{root,home/*}/.config/{autostart,systemd}{,/**}",
    )
)
_VITAL_TOPS = frozenset(
    "etc var bin sbin lib lib32 lib64 libx32 boot usr proc sys root home".split()  # noqa: SIM905
)
_DEVICE = re.compile(
    r"(?:sd|hd|vd|xvd)[a-z\0\1]|(?:nvme|mmcblk|md|dm-|loop|sr|sg|nbd|zd|ram|mtd|pmem|disk|rdisk|fd)[0-9\0\1]"
    r"|mtdblock|(?:mem|kmem|port)$|(?:mapper|disk|block|md|vg[^/]*|zvol)/."
)
_HARMLESS_DEVICE = re.compile(
    r"(?:null|zero|full|random|urandom|tty\w*|std(?:in|out|err)|console|ptmx|(?:fd|pts|shm|tcp|udp)/.*|fd)$"
)
_SEEN_THROUGH = re.compile(r"/proc/(?:self|thread-self|1|\d+)/(?:root|task/\d+/root)(?=/|$)")


class CriticalPathClassifier:
    """Classifies paths for one judge, by its home and working directory."""

    def __init__(self, home: str, working_folder: str) -> None:
        self.home = home
        self._home = _parts(home)
        self._work = _parts(working_folder)
        self._vital_in_home = (
            (*self._home, ".ssh", "authorized_keys"),
            (*self._home, ".config", "autostart"),
            (*self._home, ".config", "systemd"),
        )

    def holds(self, place: PathClass, word: str, folder: str) -> bool:
        """Whether a word, as a path in that directory, is of this class."""
        path = normalize_path(word, folder)
        if path is None:
            return False
        match place:
            case PathClass.precious:
                return self._is_precious(path) or self._is_home(path)
            case PathClass.system:
                return self._is_precious(path)
            case PathClass.vital:
                return self._is_vital(path)
            case PathClass.device:
                return _is_device(path)
            case PathClass.any_device:
                return _is_device(path) or (path[:1] == ("dev",) and UNKNOWN in path[-1])

    def _is_precious(self, path: tuple[str, ...]) -> bool:
        path = _contents_as_folder(path)
        if not path:
            return True
        if _like(path, _THEMSELVES):
            return True
        if self._work and path[: len(self._work)] == self._work and path not in _WITH_ALL_BELOW:
            return False
        if any(path[: len(each)] == each for each in _ORDINARY):
            return False
        return any(_like(path[: len(each)], {each}) for each in _WITH_ALL_BELOW)

    def _is_home(self, path: tuple[str, ...]) -> bool:
        path = _contents_as_folder(path)
        above = path[:-1] if path and path[-1] in _OF_A_HOME else path
        for each in (path, above):
            if _like(each, {self._home}):
                return True
            if each == self._work:
                continue
            if _like(each, {("root",)}):
                return True
            if len(each) == 2 and _like(each[:1], {("home",), ("Users",)}) and each[1] != "Shared":
                return True
        return False

    def _is_vital(self, path: tuple[str, ...]) -> bool:
        if any(path[: len(each)] == each for each in self._vital_in_home):
            return True
        if not path or path[0] not in _VITAL_TOPS:
            return False
        if len(path) >= len(self._work) > 0 and path[: len(self._work)] == self._work:
            return False
        return any(glob.matches_whole(path) for glob in _VITAL)


def normalize_path(word: str, folder: str) -> tuple[str, ...] | None:
    """The parts of a path, without `.`, `..` and repeated slashes; None if its start is unknown."""
    text = word if word.startswith("/") else f"{folder}/{word}"
    if not word or word[0] == UNKNOWN or text[0] != "/" or len(text) > MAX_PATH:
        return None
    return _parts(_SEEN_THROUGH.sub("", text, count=1))


def _parts(path: str) -> tuple[str, ...]:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return tuple(parts)


def matches_everything(word: str) -> bool:
    """Whether it matches everything in a directory: `*`, or all results of a search below it."""
    name = word.rstrip("/").rpartition("/")[2]
    return name == BELOW or (
        PATTERN in name and (unmarked(name) in _EVERYTHING or set(unmarked(name)) == {"*"})
    )


def _contents_as_folder(path: tuple[str, ...]) -> tuple[str, ...]:
    """Everything in a directory counts as the directory, and results of a search of `/` as `/`."""
    if path == (SOME,):
        return ()
    while path and matches_everything(path[-1]):
        path = path[:-1]
    return path


def _like(path: tuple[str, ...], places: frozenset[tuple[str, ...]] | set[tuple[str, ...]]) -> bool:
    """Whether a path, which may contain patterns, is one of these."""
    if path in places:
        return True
    if not any(PATTERN in part and len(part) <= MAX_PATTERN for part in path):
        return False
    patterns = [unmarked(part) for part in path]
    return any(len(each) == len(path) and all(map(fnmatchcase, each, patterns)) for each in places)


def _is_device(path: tuple[str, ...]) -> bool:
    if len(path) < 2 or path[0] != "dev":
        return False
    name = "/".join(path[1:])
    return _DEVICE.match(name) is not None and _HARMLESS_DEVICE.match(name) is None
