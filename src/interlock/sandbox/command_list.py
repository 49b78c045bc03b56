"""The built-in rules: what is plainly destructive, or changes who may do what.

Those about the machine itself are in `command_machine_list.py`.

They are advice on top of the kernel's wall. What they cannot see is left to it, and so is everything
that is destructive only inside the folders that were opened.
"""

from interlock.sandbox import command_rules as tests
from interlock.sandbox.command_machine_list import MACHINE_RULES
from interlock.sandbox.command_places import Place
from interlock.sandbox.command_rules import Rule
from interlock.sandbox.shell_commands import SELF_STARTING

_NAME_IT = "Name the file or folder inside the working folder that should go."
_TELL = "Tell the person what is needed; they can do it themselves."
_USE_A_FILE = "Work on an image file in the working folder instead of a device."

_FILES_AND_RIGHTS: tuple[Rule, ...] = (
    Rule(
        "remove-system-folder",
        "it removes a system or home folder with all that is in it",
        _NAME_IT,
        refused=(
            "rm -rf /",
            "rm / -fr",
            "rm --recursive ~/*",
            "rm -r -- '/home/ann'",
            "find / -delete",
            "cd / && rm -rf *",
            "find /etc -type f -exec rm {} +",
            "find /etc -type f | xargs rm",
            "rm -f /etc/*",
            "rm /usr/lib/*.so",
        ),
        allowed=(
            "rm -rf build",
            "rm -rf ./*",
            "rm /",
            "rm -rf ~/.cache/pip",
            "find . -delete",
            "rm ~/*.log",
        ),
        programs=("rm", "srm", "shred", "unlink"),
        options=(("r", "R", "recursive"),),
        names_suffice=True,
        operand=Place.precious,
    ),
    Rule(
        "move-system-folder",
        "it moves a system or home folder away",
        _NAME_IT,
        refused=("mv / /dev/null", "mv /etc /tmp/e", "mv -t /tmp /usr"),
        allowed=("mv build /opt/x", "mv a ~", "mv ~/ws/a b"),
        programs=("mv",),
        operand=Place.precious,
        is_source=True,
    ),
    Rule(
        "empty-system-folder",
        "it makes a system or home folder equal to another and deletes the rest",
        _NAME_IT,
        refused=("rsync -a --delete empty/ /", "rsync -r --delete-after x/ ~"),
        allowed=("rsync -a --delete src/ dst/", "rsync -a ~/ backup/"),
        programs=("rsync",),
        operand=Place.precious,
        test=tests.deletes_elsewhere,
    ),
    Rule(
        "overwrite-system-folder",
        "it empties or rewrites everything that a search finds in a system or home folder",
        _NAME_IT,
        refused=(
            "find ~ -type f -exec truncate -s 0 {} +",
            "find / -name '*.conf' -exec sed -i s/a/b/ {} +",
            "grep -rl x /etc | xargs sed -i s/a/b/",
        ),
        allowed=(
            "find . -type f -exec sed -i s/a/b/ {} +",
            "find ~ -name '*.py' -exec sed -i s/a/b/ {} +",
            "grep -rl x ~/src | xargs sed -i s/a/b/",
            "find /etc -type f -exec sed -n p {} +",
            "truncate -s 0 ~/notes.txt",
        ),
        programs=("truncate", "tee", "sponge", "sed", "gsed", "perl", "ruby", "awk", "gawk"),
        options=(("recursive",),),
        names_suffice=True,
        written=Place.precious,
    ),
    Rule(
        "change-home-access",
        "it changes who may use a whole system or home folder",
        "Change the access of files inside the working folder.",
        refused=("chmod -R 777 /", "chown -R nobody ~", "chgrp --recursive x /home"),
        allowed=("chmod -R u+w .", "chown -R me build", "chmod 700 ~/.ssh"),
        programs=("chmod", "chown", "chgrp", "setfacl"),
        options=(("R", "recursive"),),
        operand=Place.precious,
    ),
    Rule(
        "change-system-access",
        "it changes the access or the attributes of system files",
        "Change the access of files inside the working folder.",
        refused=("chmod 777 /etc/shadow", "chattr +i /etc/passwd", "chown me /usr/bin/env"),
        allowed=("chmod +x run.sh", "chmod 644 /tmp/x", "chattr +i x"),
        programs=("chmod", "chown", "chgrp", "chattr", "setfacl"),
        operand=Place.system,
    ),
    Rule(
        "format-device",
        "it formats or erases a device",
        _USE_A_FILE,
        refused=(
            "mkfs.ext4 /dev/sda1",
            "wipefs -a /dev/sda",
            "shred -n 3 /dev/nvme0n1",
            "mkswap /dev/$disk",
        ),
        allowed=("mkfs.ext4 disk.img", "shred -u notes.txt", "lsblk /dev/sda", "mkfs.ext4 -d x image"),
        programs=(
            *("mkfs", "mkfs.*", "mke2fs", "mkswap", "mkntfs", "mkdosfs", "newfs", "wipefs", "blkdiscard"),
            *("shred", "scrub", "nwipe", "pvcreate", "pvremove", "zerofree", "sg_format"),
        ),
        operand=Place.any_device,
    ),
    Rule(
        "partition-device",
        "it changes the partitions or the file system of a device",
        _USE_A_FILE,
        refused=("fdisk /dev/sda", "parted /dev/sda mklabel gpt", "sgdisk --zap-all /dev/sda"),
        allowed=("fdisk -l /dev/sda", "parted /dev/sda print", "sfdisk -d /dev/sda", "fdisk disk.img"),
        programs=("fdisk", "sfdisk", "cfdisk", "sgdisk", "gdisk", "parted", "tune2fs", "resize2fs"),
        unless=("l", "list", "d", "dump", "p", "print", "J", "json"),
        not_subcommands=("print", "unit"),
        operand=Place.any_device,
    ),
    Rule(
        "erase-device",
        "it erases a device",
        _USE_A_FILE,
        refused=(
            "nvme format /dev/nvme0",
            "cryptsetup luksFormat /dev/sda1",
            "cryptsetup -q luksErase /dev/sdb",
        ),
        allowed=("nvme list", "cryptsetup luksDump /dev/sda1", "cryptsetup luksFormat disk.img"),
        programs=("nvme", "cryptsetup"),
        subcommands=("format", "sanitize", "luksFormat", "luksErase", "erase", "reencrypt"),
        operand=Place.any_device,
    ),
    Rule(
        "erase-device-by-option",
        "it erases a device",
        _USE_A_FILE,
        refused=("mdadm --zero-superblock /dev/sdb1", "badblocks -w /dev/sdb"),
        allowed=("mdadm --detail /dev/md0", "badblocks -v /dev/sdb", "hdparm -I /dev/sda"),
        programs=("mdadm", "hdparm", "badblocks"),
        options=(("zero-superblock", "security-erase", "security-erase-enhanced", "w"),),
        operand=Place.any_device,
    ),
    Rule(
        "remove-volumes",
        "it removes storage volumes",
        _TELL,
        refused=("lvremove -f vg/root", "vgremove vg"),
        allowed=("lvs", "man lvremove"),
        programs=("lvremove", "vgremove"),
    ),
    Rule(
        "destroy-pool",
        "it destroys a storage pool",
        _TELL,
        refused=("zfs destroy -r tank/home", "zpool destroy tank"),
        allowed=("zfs list", "zpool status", "echo zpool destroy tank"),
        programs=("zpool", "zfs"),
        subcommands=("destroy", "labelclear"),
    ),
    Rule(
        "write-device",
        "it writes over a device",
        _USE_A_FILE,
        refused=(
            "dd if=/dev/zero of=/dev/sda bs=1M",
            "echo x > /dev/sda",
            "cat a | tee /dev/nvme0n1",
            "cp disk.img /dev/disk/by-id/x",
        ),
        allowed=(
            "dd if=/dev/zero of=disk.img",
            "ls 2>/dev/null",
            "dd if=/dev/sda of=x",
            "basename /dev/sda",
        ),
        written=Place.device,
    ),
    Rule(
        "write-system-file",
        "it changes a file that the system trusts: accounts, rights, start-up, schedules or programs",
        "Write the file inside the working folder and tell the person where it belongs.",
        refused=(
            ": > /etc/passwd",
            "echo x | tee -a /etc/sudoers",
            "cp x /etc/cron.d/",
            "echo b > /proc/sysrq-trigger",
            "sed -i s/a/b/ /etc/shadow",
            "rm -f /boot/vmlinuz",
            "ln -sf x /etc/ld.so.preload",
        ),
        allowed=(
            "cat /etc/passwd",
            "cp /etc/passwd .",
            "grep root /etc/passwd > out",
            "sed s/a/b/ /etc/group",
        ),
        written=Place.vital,
    ),
    Rule(
        "change-user",
        "it runs commands as another user",
        "Run the command as it is, without changing the user.",
        refused=("sudo rm x", "sudo -i", "doas sh", "su -c id", "env pkexec id", "x | sudo tee y"),
        allowed=("cat sudoku.py", "which sudo", "command -v doas", "./su", "echo sudo", "sudo --version"),
        programs=(
            *("sudo", "sudo-rs", "sudoedit", "doas", "dzdo", "su", "su-exec", "pkexec", "run0", "runuser"),
            *("gksudo", "kdesu", "gosu"),
        ),
    ),
    Rule(
        "change-accounts",
        "it changes accounts, groups or passwords of the machine",
        _TELL,
        refused=(
            "useradd -o -u 0 evil",
            "usermod -aG sudo nobody",
            "passwd root",
            "visudo",
            "chpasswd < x",
        ),
        allowed=("cat passwd", "openssl passwd -1 x", "ls | grep -v passwd", "./passwd"),
        programs=(
            *("useradd", "adduser", "usermod", "userdel", "deluser", "groupadd", "addgroup", "groupmod"),
            *("groupdel", "delgroup", "gpasswd", "passwd", "chpasswd", "chgpasswd", "newusers", "visudo"),
            *("vipw", "vigr", "chsh", "chfn", "pwconv", "pwunconv", "grpconv", "grpunconv"),
        ),
    ),
    Rule(
        "raise-rights",
        "it lets a file run with the rights of its owner",
        "Leave the set-user-id bit off.",
        refused=("chmod u+s x", "chmod 4755 x", "chmod a+xs x", "install -m 6755 a b"),
        allowed=("chmod g+s folder", "chmod 755 x", "chmod 2775 x", "chmod u+x s", "chmod +x s"),
        programs=("chmod", "install"),
        test=tests.sets_user_id,
    ),
    Rule(
        "give-capabilities",
        "it gives a program rights of the administrator",
        _TELL,
        refused=("setcap cap_setuid+ep ./x",),
        allowed=("getcap ./x",),
        programs=("setcap",),
    ),
    Rule(
        "plan-jobs",
        "it plans commands that run later, outside this task",
        "Run the command now, or tell the person what should run regularly.",
        refused=("crontab jobs.txt", "echo x | crontab -", "crontab -r", "make-jobs | crontab"),
        allowed=("crontab -l", "cat crontab"),
        programs=("crontab",),
        test=tests.changes_jobs,
    ),
    Rule(
        "fork-bomb",
        "it is a function that starts itself again and again",
        "Start a number of processes that is known beforehand.",
        refused=(":(){ :|:& };:", "b() { b | b & }; b", "f(){ f & }; f"),
        allowed=("echo ':(){ :|:& };:'", "f() { g | g & }; f", "f() { f; }"),
        programs=(SELF_STARTING,),
    ),
)

RULES: tuple[Rule, ...] = (*_FILES_AND_RIGHTS, *MACHINE_RULES)
