"""Swaps folders and files for links, as fast as it can, until it is killed: `path_attacker.py TOP SEED`.

It works from descriptors of the real folders alone, so that it never touches the outside itself. All of
its swaps are undone before the next one begins.
"""

import ctypes
import os
import random
import sys
from contextlib import suppress
from pathlib import Path

RENAME_EXCHANGE = 2
AT = tuple[int, str]

libc = ctypes.CDLL(None, use_errno=True)


def swap(one: AT, other: AT) -> None:
    """Both names exist at every moment; only what they lead to changes."""
    failed = libc.renameat2(one[0], one[1].encode(), other[0], other[1].encode(), RENAME_EXCHANGE)
    if failed:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), one[1])


class Attacker:
    def __init__(self, top: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.number = 0
        self.top, self.ws, self.folder, self.links = (
            os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            for path in (top, top / "ws", top / "ws/d", top / "links")
        )
        self.outside = str(top / "outside")
        outside = (
            "../outside",
            self.outside,
            "/proc/self/cwd/outside",
            "../links/chain",
            "../outside/sub/..",
        )
        self.folder_links = [self.link(f"folder{number}", target) for number, target in enumerate(outside)]
        self.link("chain", self.outside)
        self.inner_links = [
            self.link("inner0", f"{self.outside}/sub"),
            self.link("inner1", "../../outside/sub"),
        ]
        self.loops = [
            self.link("loop0", "d"),
            self.link("loop1", "./d/d"),
            self.link("loop2", "../links/loop2"),
        ]
        self.insides = [
            self.link("inside0", "e"),
            self.link("inside1", ".git/hooks"),
            self.link("inside2", "."),
        ]
        self.root_links = [self.link("root0", "outside"), self.link("root1", self.outside)]

    def link(self, name: str, target: str) -> str:
        os.symlink(target, name, dir_fd=self.links)
        return name

    def linger(self) -> None:
        for _ in range(self.chance.choice((0, 10, 100, 1000))):
            pass

    def swapped(self, at: AT, link: str) -> None:
        swap(at, (self.links, link))
        self.linger()
        swap(at, (self.links, link))

    def folder_for_a_link(self) -> None:
        self.swapped((self.ws, "d"), self.chance.choice(self.folder_links))

    def inner_folder_for_a_link(self) -> None:
        self.swapped((self.folder, "sub"), self.chance.choice(self.inner_links))

    def folder_for_a_loop(self) -> None:
        self.swapped((self.ws, "d"), self.chance.choice(self.loops))

    def folder_for_a_link_inside(self) -> None:
        self.swapped((self.ws, "d"), self.chance.choice(self.insides))

    def root_for_a_link(self) -> None:
        self.swapped((self.top, "ws"), self.chance.choice(self.root_links))

    def folder_away_and_back(self) -> None:
        os.rename("d", "d2", src_dir_fd=self.ws, dst_dir_fd=self.ws)
        self.linger()
        # Somebody may have made a new one meanwhile.
        self.number += 1
        with suppress(FileNotFoundError):
            os.rename("d", f"intruder{self.number}", src_dir_fd=self.ws, dst_dir_fd=self.links)
        while True:
            try:
                os.rename("d2", "d", src_dir_fd=self.ws, dst_dir_fd=self.ws)
            except OSError:
                self.number += 1
                os.rename("d", f"intruder{self.number}", src_dir_fd=self.ws, dst_dir_fd=self.links)
            else:
                return

    def file_for_a_link(self) -> None:
        name = self.chance.choice(("f", "t", "a"))
        with suppress(FileExistsError):
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=self.folder))
        self.restore_link(name)
        with suppress(FileNotFoundError):
            self.swapped((self.folder, name), name)

    def restore_link(self, name: str) -> None:
        """Whoever replaced or removed the file while it was a link has changed which of the two is one."""
        with suppress(OSError):
            os.readlink(name, dir_fd=self.links)
            return
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.links)
        self.link(name, f"{self.outside}/{name}")

    def dangling_link(self) -> None:
        name = self.chance.choice(("new", "made"))
        with suppress(FileExistsError):
            os.symlink(f"{self.outside}/{name}", name, dir_fd=self.folder)
            self.linger()
            with suppress(OSError):
                os.unlink(name, dir_fd=self.folder)

    def attack(self) -> None:
        attacks = {
            self.folder_for_a_link: 4,
            self.inner_folder_for_a_link: 2,
            self.folder_for_a_link_inside: 2,
            self.root_for_a_link: 2,
            self.file_for_a_link: 2,
            self.folder_for_a_loop: 1,
            self.folder_away_and_back: 1,
            self.dangling_link: 1,
        }
        while True:
            [each] = self.chance.choices(list(attacks), list(attacks.values()))
            for _ in range(self.chance.randrange(1, 50)):
                each()


if __name__ == "__main__":
    attacker = Attacker(Path(sys.argv[1]), int(sys.argv[2]))
    os.chdir(sys.argv[1])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    attacker.attack()
