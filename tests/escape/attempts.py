"""Attempts that a job makes: each prints `reached` if it came through, or the system's reason why not.

A snippet sees `outside` and `inside` (folders), `server` (the number of the process that runs the tests),
`port` and `path` (where somebody listens), `call` (a raw system call), and what `PRELUDE` names.
"""

PRELUDE = """
import ctypes, errno, os, socket, struct, sys, time
outside, inside, server, port, path = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:5]), sys.argv[5]
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *wide)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
def make_and_remove(folder):
    # Where it comes through, nothing of it stays on the machine.
    name = f"{folder}/interlock-{os.getpid()}"
    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.unlink(name)
def attempt():
{body}
try:
    print("reached", attempt() or "")
except OSError as error:
    print(errno.errorcode.get(error.errno, error.errno))
"""


def program(body: str) -> str:
    return PRELUDE.replace("{body}", "\n".join("    " + line for line in body.strip().splitlines()))


DENIED = ("EACCES", "EPERM", "EXDEV")

# name: (what is tried, how it is refused)
FILES = {
    "read": ("open(outside + '/file').read()", DENIED),
    "list": ("os.listdir(outside)", DENIED),
    "list the root of all": ("os.listdir('/')", DENIED),
    "read shadow": ("open('/etc/shadow').read()", DENIED),
    "list etc": ("os.listdir('/etc')", DENIED),
    "read the private keys of ssl": ("os.listdir('/etc/ssl/private')", DENIED),
    "write": ("open(outside + '/file', 'w')", DENIED),
    "append": ("open(outside + '/file', 'a')", DENIED),
    "create": ("open(outside + '/new', 'x')", DENIED),
    "make a folder": ("os.mkdir(outside + '/new')", DENIED),
    "make a link": ("os.symlink('x', outside + '/new')", DENIED),
    "make a pipe": ("os.mkfifo(outside + '/new')", DENIED),
    "unlink": ("os.unlink(outside + '/file')", DENIED),
    "remove a folder": ("os.rmdir(outside + '/empty')", DENIED),
    "truncate by path": ("os.truncate(outside + '/file', 0)", DENIED),
    "truncate while reading": ("os.open(outside + '/file', os.O_RDONLY | os.O_TRUNC)", DENIED),
    "move out": ("os.rename(inside + '/file', outside + '/new')", DENIED),
    "move in": ("os.rename(outside + '/file', inside + '/new')", DENIED),
    "link out": ("os.link(inside + '/file', outside + '/new')", DENIED),
    "link in": ("os.link(outside + '/file', inside + '/new')", DENIED),
    "read an attribute": ("os.getxattr(outside + '/file', 'user.x')", ("ENOTSUP", "EOPNOTSUPP", "ENOENT")),
    "read a link's attribute": (
        "os.getxattr(outside + '/file', 'user.x', follow_symlinks=False)",
        ("ENOTSUP", "EOPNOTSUPP", "ENOENT"),
    ),
    "list attributes": ("os.listxattr(outside + '/file')", ("ENOTSUP", "EOPNOTSUPP", "ENOENT")),
    "read an attribute by the newest call": (
        "call(464, -100, (outside + '/file').encode(), 0, b'user.x', bytes(16), 16)",
        ("ENOTSUP", "EOPNOTSUPP", "ENOSYS"),
    ),
    "read through a link": ("return open(inside + '/link-out').read()", DENIED),
    "read by dot dot": ("return open(inside + '/../outside/file').read()", DENIED),
    "write to a system folder": ("make_and_remove('/usr')", DENIED),
    "write to a device": ("open('/dev/vda', 'rb')", (*DENIED, "ENOENT")),
    "write to shared memory": ("make_and_remove('/dev/shm')", DENIED),
    "set a system variable": ("open('/proc/sys/kernel/hostname', 'w')", DENIED),
    "watch a whole file system": ("call(300, 0, 0)", DENIED),
    "open by handle": ("call(304, -100, 0, 0)", DENIED),
}

PROCESSES = {
    "signal the server": ("os.kill(server, 0)", DENIED),
    "kill the server": ("os.kill(server, 9)", DENIED),
    "signal the supervisor": ("os.kill(os.getppid(), 0)", DENIED),
    "signal by descriptor": ("import signal; signal.pidfd_send_signal(os.pidfd_open(server), 0)", DENIED),
    "signal the server's group": ("os.killpg(os.getpgid(server), 0)", (*DENIED, "ESRCH")),
    "limit the server": ("call(302, server, 7, ctypes.byref((ctypes.c_ulong * 2)(9, 9)), None)", DENIED),
    "read the server's limits": ("call(302, server, 7, None, (ctypes.c_ulong * 2)())", DENIED),
    "slow the server": ("os.setpriority(os.PRIO_PROCESS, server, 19)", DENIED),
    "slow the whole account": ("os.setpriority(os.PRIO_USER, 0, 19)", DENIED),
    "pin the server": ("os.sched_setaffinity(server, {0})", DENIED),
    "schedule the server": ("os.sched_setscheduler(server, os.SCHED_IDLE, os.sched_param(0))", DENIED),
    "starve the server's disk": ("call(251, 1, server, (3 << 13))", DENIED),
    "move the server's pages": ("call(256, server, 1, None, None)", DENIED),
    "trace the server": ("call(101, 16, server, 0, 0)", DENIED),
    "be traced": ("call(101, 0, 0, 0, 0)", DENIED),
    "read its memory": ("call(310, server, None, 0, None, 0, 0)", DENIED),
    "write its memory": ("call(311, server, None, 0, None, 0, 0)", DENIED),
    "open its memory": ("open(f'/proc/{server}/mem', 'rb')", DENIED),
    "take its descriptor": ("call(438, os.pidfd_open(server), 0, 0)", DENIED),
    "compare with it": ("call(312, server, os.getpid(), 0, 0, 0)", DENIED),
    "read its environment": ("open(f'/proc/{server}/environ', 'rb').read()", DENIED),
    "read its command line": ("open(f'/proc/{server}/cmdline', 'rb').read()", DENIED),
    "list its descriptors": ("os.listdir(f'/proc/{server}/fd')", DENIED),
    "go through its root": ("os.listdir(f'/proc/{server}/root/')", DENIED),
    "go through its folder": ("os.listdir(f'/proc/{server}/cwd/')", DENIED),
    "list processes": ("os.listdir('/proc')", DENIED),
    "read the supervisor's memory": ("open(f'/proc/{os.getppid()}/mem', 'rb')", DENIED),
}

SOCKETS = {
    "unix by path": ("socket.socket(socket.AF_UNIX).connect(path)", DENIED),
    "unix datagram by path": ("socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).connect(path)", DENIED),
    "unix by abstract name": ("socket.socket(socket.AF_UNIX).connect('\\0' + path)", DENIED),
    "a datagram pair's end": (
        "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].connect(path)",
        DENIED,
    ),
    "a packet pair's end": (
        "socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)[0].connect(path)",
        DENIED,
    ),
    "a stream pair's end": ("socket.socketpair()[0].connect(path)", (*DENIED, "EISCONN")),
    "tcp": ("socket.create_connection(('127.0.0.1', port), 1)", DENIED),
    "tcp over ipv6": ("socket.socket(socket.AF_INET6).connect(('::1', port))", DENIED),
    "tcp fast open": (
        "socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', port))",
        DENIED,
    ),
    "tcp fast open by message": (
        "socket.socket().sendmsg([b'x'], [], 0x20000000, ('127.0.0.1', port))",
        DENIED,
    ),
    "tcp fast open by option": (
        "s = socket.socket()\ns.setsockopt(6, 30, 1)\ns.connect(('127.0.0.1', port))\ns.send(b'x')",
        DENIED,
    ),
    "multipath tcp": (
        "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect(('127.0.0.1', port))",
        DENIED,
    ),
    "sctp": ("socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)", DENIED),
    "take an abstract name": ("socket.socketpair()[0].bind('\\0' + path + '-taken')", DENIED),
    "bind": ("socket.socket().bind(('127.0.0.1', 0))", DENIED),
    "listen without bind": ("socket.socket().listen()", DENIED),
    "udp": ("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', port))", DENIED),
    "raw": ("socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)", DENIED),
    "packets": ("socket.socket(17, socket.SOCK_RAW)", DENIED),
    "netlink": ("socket.socket(16, socket.SOCK_RAW)", DENIED),
    "vsock": ("socket.socket(40, socket.SOCK_STREAM)", DENIED),
    "the kernel's cryptography": ("socket.socket(38, socket.SOCK_SEQPACKET)", DENIED),
}

KERNEL = {
    "io_uring": ("call(425, 1, (ctypes.c_char * 120)())", ("ENOSYS",)),
    "clone3": ("call(435, (ctypes.c_char * 88)(), 88)", ("ENOSYS",)),
    "x32": ("call(0x40000000 + 39)", ("ENOSYS",)),
    "a user namespace": ("call(272, 0x10000000)", DENIED),
    "a time namespace": ("call(272, 0x80)", DENIED),
    "a user namespace by clone": ("call(56, 0x10000000 | 17, 0, 0, 0, 0)", DENIED),
    "another's namespace": ("call(308, os.pidfd_open(os.getpid()), 0x10000000)", DENIED),
    "mount": ("call(165, b'none', inside.encode(), b'tmpfs', 0, None)", DENIED),
    "unmount": ("call(166, b'/proc', 0)", DENIED),
    "the new mounting calls": ("call(430, b'tmpfs', 0)", DENIED),
    "a detached mount": ("call(428, -100, b'/', 1)", DENIED),
    "chroot": ("os.chroot(inside)", DENIED),
    "pivot_root": ("call(155, b'.', b'.')", DENIED),
    "keyring": ("call(250, 0, -3, 1)", DENIED),
    "bpf": ("call(321, 0, None, 0)", DENIED),
    "perf": ("call(298, None, 0, -1, -1, 0)", DENIED),
    "userfaultfd": ("call(323, 0)", DENIED),
    "reboot with a wrong magic": ("call(169, 1, 2, 3, None)", DENIED),
    "load a module": ("call(313, -1, b'', 0)", DENIED),
    "set the clock": ("call(164, None, None)", DENIED),
    "the kernel's log": ("call(103, 10, None, 0)", DENIED),
    "no randomised addresses": ("call(135, 0x0040000)", DENIED),
    "shared memory by number": ("call(29, 0, 4096, 0o1600)", DENIED),
    "a message queue": ("call(240, b'interlock', 0o102, 0o600, None)", DENIED),
    "a device that hides a file": ("os.mknod(inside + '/node', 0o20000, 0)", DENIED),
    "a device": ("os.mknod(inside + '/node', 0o60666, os.makedev(7, 0))", DENIED),
    "the name of a socket": ("os.mknod(inside + '/node', 0o140666)", DENIED),
    "a device by moving a file": (
        "call(316, -100, (inside + '/file').encode(), -100, (inside + '/moved').encode(), 4)",
        DENIED,
    ),
    "type on the terminal": ("import fcntl; fcntl.ioctl(1, 0x5412, b'x')", DENIED),
    "type, with high bits set": ("call(16, 1, 0x100005412, b'x')", DENIED),
    "a lease on a file": ("import fcntl; fcntl.fcntl(os.open(inside + '/file', 0), 1024, 0)", DENIED),
    "flags of a file": (
        "import fcntl; fcntl.ioctl(os.open(inside + '/file', 0), 0x40086602, struct.pack('l', 0x40))",
        DENIED,
    ),
    "flags of a file by the new call": (
        "call(469, -100, (inside + '/file').encode(), bytes(24), 24, 0)",
        DENIED,
    ),
    "seal a file": ("call(16, os.open(inside + '/file', 0), 0x40806685, bytes(128))", DENIED),
    "a subvolume": ("call(16, os.open(inside, 0), 0x5000940E, bytes(4096))", DENIED),
    **{
        f"a request of {name}": (f"call(16, os.open(inside, 0), {request}, bytes(4096))", DENIED)
        for name, request in {
            "f2fs": 0x4004F50D,
            "bcachefs": 0x4020BC10,
            "cifs": 0xCF04,
            "ceph": 0x40289702,
        }.items()
    },
    "an attribute": ("os.setxattr(inside + '/file', 'user.x', b'y')", ("ENOTSUP", "EOPNOTSUPP")),
}

# A file that runs as its owner would serve whoever else is on the machine.
SET_ID = {
    "made so": "os.open(inside + '/new', os.O_CREAT | os.O_WRONLY, 0o4755)",
    "made so by the old call": "call(85, (inside + '/new').encode(), 0o4755)",
    "made so by the newest call": (
        "how = struct.pack('QQQ', 0o101, 0o4755, 0)\ncall(437, -100, (inside + '/new').encode(), how, 24)"
    ),
    "made so as a node": "os.mknod(inside + '/new', 0o104755)",
    "changed": "os.chmod(inside + '/file', 0o4755)",
    "changed for the group": "os.chmod(inside + '/file', 0o2755)",
    "changed by descriptor": "os.fchmod(os.open(inside + '/file', os.O_RDWR), 0o4755)",
}

# Landlock has no right for them. Where nothing is written the filter refuses them all; where something is,
# the supervisor judges. In every form that a path or a descriptor can be given in.
METADATA = {
    "chmod": "os.chmod({place} + '/file', 0o777)",
    "chmod by a link": "os.chmod(inside + '/link-{place}', 0o777)",
    "chmod from there": "os.chdir({place}); os.chmod('file', 0o777)",
    "chmod by dot dot": "os.chdir(inside); os.chmod('../{place}/file', 0o777)",
    "chmod by a folder": "os.chmod('file', 0o777, dir_fd=os.open({place}, os.O_PATH))",
    "chmod by a descriptor's name": (
        "os.chmod('/proc/self/fd/%d' % os.open({place} + '/file', os.O_PATH), 0o777)"
    ),
    "chmod by the folder's name": "os.chdir({place}); os.chmod('/proc/self/cwd/file', 0o777)",
    "chmod by the newest call": "call(452, -100, ({place} + '/file').encode(), 0o777, 0)",
    "chmod by a descriptor alone": "call(452, os.open({place} + '/file', os.O_PATH), b'', 0o777, 0x1000)",
    "chmod by a thread": (
        "import threading\nfailed = []\n"
        "def change():\n    try: os.chmod({place} + '/file', 0o777)\n"
        "    except OSError as error: failed.append(error)\n"
        "thread = threading.Thread(target=change); thread.start(); thread.join()\n"
        "if failed: raise failed[0]"
    ),
    "chown": "os.chown({place} + '/file', os.getuid(), os.getgid())",
    "chown of a link": "os.lchown({place} + '/link-{place}', os.getuid(), os.getgid())",
    "chown by a descriptor": "os.chown('file', -1, os.getgid(), dir_fd=os.open({place}, os.O_PATH))",
    "utime": "os.utime({place} + '/file', (1, 1))",
    "utime of now": "os.utime({place} + '/file')",
    "utime of a link": "os.utime({place} + '/link-{place}', (1, 1), follow_symlinks=False)",
    "the old utime": "call(132, ({place} + '/file').encode(), struct.pack('qq', 1, 1))",
    "the old utimes": "call(235, ({place} + '/file').encode(), struct.pack('qqqq', 1, 0, 1, 0))",
}
# A system file can be opened for reading, and belongs to root.
OF_THE_SYSTEM = {
    "fchmod": "os.fchmod(os.open(SYSTEM, os.O_RDONLY), 0o644)",
    "futimens": "os.utime(os.open(SYSTEM, os.O_RDONLY))",
    "fchown": "os.fchown(os.open(SYSTEM, os.O_RDONLY), -1, -1)",
}
