"""The built-in rules: commands that are plainly destructive, or change permissions.

Rules about devices are in `device_rules.py`, those about the machine itself in `machine_rules.py`.

They are advice in addition to the sandbox. What they cannot see is left to it, and so is everything that is
destructive only inside the opened directories.
"""

from interlock.commands import rules as tests
from interlock.commands.critical_paths import PathClass
from interlock.commands.device_rules import DEVICE_RULES
from interlock.commands.extraction import SELF_STARTING
from interlock.commands.machine_rules import MACHINE_RULES
from interlock.commands.rules import CommandRule

_NAME_IT = "Name the file or folder inside the working folder to remove."
_TELL = "Tell the user what is needed; they can do it themselves."

_FILES_AND_RIGHTS: tuple[CommandRule, ...] = (
    CommandRule(
        "remove-system-folder",
        "it removes a system or home folder with everything in it",
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
        operand=PathClass.precious,
    ),
    CommandRule(
        "remove-with-other-tools",
        "it removes a system or home folder, or moves it to the trash",
        _NAME_IT,
        refused=("rimraf /usr", "npx -y rimraf ~", "trash-put /etc", "gio trash /home"),
        allowed=("npx rimraf dist", "gio info /etc", "trash ~/notes.txt", "gio list /"),
        programs=("rimraf", "trash", "trash-put", "rmtrash", "gio"),
        operand=PathClass.precious,
        test=tests.moves_to_trash,
    ),
    CommandRule(
        "pack-and-remove",
        "it archives a system or home folder and removes the original files",
        "Archive it without the option that removes the files.",
        refused=("tar --remove-files -cf x.tar /etc", "zip -rm x.zip ~", "7z a -sdel x.7z /usr"),
        allowed=("tar -cf x.tar /etc", "zip -r x.zip ~", "tar --remove-files -cf x.tar build"),
        programs=("tar", "bsdtar", "zip", "7z", "7za", "7zr", "7zz"),
        operand=PathClass.precious,
        test=tests.removes_packed,
    ),
    CommandRule(
        "copy-and-remove",
        "it copies a system or home folder and removes the original files",
        "Copy it without the option that removes the files.",
        refused=("rsync -a --remove-source-files /etc/ x/",),
        allowed=("rsync -a --remove-source-files x/ ~", "rsync -a /etc/ x/"),
        programs=("rsync",),
        options=(("remove-source-files", "remove-sent-files"),),
        unless=("n", "dry-run"),
        operand=PathClass.precious,
        is_source=True,
    ),
    CommandRule(
        "rename-system-files",
        "it renames everything in a system or home folder",
        _NAME_IT,
        refused=("rename 's/^/x/' /etc/*", "rename .conf .bak /usr/lib/*"),
        allowed=("rename 's/a/b/' *.txt", "rename -n 's/^/x/' /etc/*"),
        programs=("rename", "prename", "perl-rename", "file-rename"),
        unless=("n", "no-act", "nono", "just-print", "dry-run"),
        operand=PathClass.precious,
    ),
    CommandRule(
        "move-system-folder",
        "it moves a system or home folder",
        _NAME_IT,
        refused=("mv / /dev/null", "mv /etc /tmp/e", "mv -t /tmp /usr"),
        allowed=("mv build /opt/x", "mv a ~", "mv ~/ws/a b"),
        programs=("mv",),
        operand=PathClass.precious,
        is_source=True,
    ),
    CommandRule(
        "empty-system-folder",
        "it mirrors another folder onto a system or home folder and deletes everything else",
        _NAME_IT,
        refused=("rsync -a --delete empty/ /", "rsync -r --delete-after x/ ~"),
        allowed=("rsync -a --delete src/ dst/", "rsync -a ~/ backup/", "rsync -an --delete x/ /etc/"),
        programs=("rsync",),
        unless=("n", "dry-run", "list-only"),
        operand=PathClass.precious,
        test=tests.deletes_elsewhere,
    ),
    CommandRule(
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
        written=PathClass.precious,
    ),
    CommandRule(
        "empty-by-redirection",
        "it empties or rewrites everything that a search finds in a system or home folder",
        _NAME_IT,
        refused=("find /home -type f -exec sh -c '> \"$1\"' _ {} \\;",),
        allowed=("find . -type f -exec sh -c '> \"$1\"' _ {} \\;", "echo x > ~/notes.txt"),
        written=PathClass.precious,
        test=tests.redirects_to_all,
    ),
    CommandRule(
        "change-home-access",
        "it changes the ownership or permissions of a whole system or home folder",
        "Change the permissions of files inside the working folder.",
        refused=("chmod -R 777 /", "chown -R nobody ~", "chgrp --recursive x /home"),
        allowed=("chmod -R u+w .", "chown -R me build", "chmod 700 ~/.ssh"),
        programs=("chmod", "chown", "chgrp", "setfacl"),
        options=(("R", "recursive"),),
        operand=PathClass.precious,
    ),
    CommandRule(
        "change-system-access",
        "it changes the permissions or attributes of system files",
        "Change the permissions of files inside the working folder.",
        refused=("chmod 777 /etc/shadow", "chattr +i /etc/passwd", "chown me /usr/bin/env"),
        allowed=("chmod +x run.sh", "chmod 644 /tmp/x", "chattr +i x"),
        programs=("chmod", "chown", "chgrp", "chattr", "setfacl"),
        operand=PathClass.system,
    ),
    CommandRule(
        "write-system-file",
        (
            "it changes a file that the system trusts: accounts, permissions, start-up, schedules or "
            "programs"
        ),
        "Write the file inside the working folder and tell the user where it belongs.",
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
        written=PathClass.vital,
    ),
    CommandRule(
        "change-user",
        "it runs commands as another user",
        "Run the command without changing the user.",
        refused=("sudo rm x", "sudo -i", "doas sh", "su -c id", "env pkexec id", "x | sudo tee y"),
        allowed=("cat sudoku.py", "which sudo", "command -v doas", "./su", "echo sudo", "sudo --version"),
        programs=(
            *("sudo", "sudo-rs", "sudoedit", "doas", "dzdo", "su", "su-exec", "pkexec", "run0", "runuser"),
            *("gksudo", "kdesu", "gosu"),
        ),
    ),
    CommandRule(
        "change-user-by-option",
        "it runs commands as root",
        "Run the command without changing the user.",
        refused=("setpriv --reuid=0 sh", "setpriv --ruid root id", "machinectl shell root@.host"),
        allowed=("setpriv --reuid=1000 ls", "setpriv --dump", "machinectl list"),
        programs=("setpriv", "machinectl"),
        test=tests.becomes_root,
    ),
    CommandRule(
        "change-accounts",
        "it changes accounts, groups or passwords of the machine",
        _TELL,
        refused=(
            "useradd -o -u 0 evil",
            "usermod -aG sudo nobody",
            "passwd root",
            "visudo",
            "chpasswd < x",
            "chage -E -1 root",
        ),
        allowed=(
            *("cat passwd", "openssl passwd -1 x", "ls | grep -v passwd", "./passwd"),
            *("passwd -S", "chage -l ann", "visudo -c", "visudo -cf sudoers.new"),
        ),
        test=tests.changes_accounts,
        programs=(
            *("useradd", "adduser", "usermod", "userdel", "deluser", "groupadd", "addgroup", "groupmod"),
            *("groupdel", "delgroup", "gpasswd", "passwd", "chpasswd", "chgpasswd", "newusers", "visudo"),
            *("vipw", "vigr", "chsh", "chfn", "chage", "pwconv", "pwunconv", "grpconv", "grpunconv"),
        ),
    ),
    CommandRule(
        "raise-rights",
        "it sets the set-user-id or set-group-id bit of a file",
        "Do not set that bit.",
        refused=("chmod u+s x", "chmod 4755 x", "chmod a+xs x", "install -m 6755 a b"),
        allowed=("chmod g+s folder", "chmod 755 x", "chmod 2775 x", "chmod u+x s", "chmod +x s"),
        programs=("chmod", "install"),
        test=tests.sets_user_id,
    ),
    CommandRule(
        "give-capabilities",
        "it gives root capabilities to a program",
        _TELL,
        refused=("setcap cap_setuid+ep ./x",),
        allowed=("getcap ./x",),
        programs=("setcap",),
    ),
    CommandRule(
        "plan-jobs",
        "it schedules commands that run later, outside this task",
        "Run the command now, or tell the user what should run regularly.",
        refused=("crontab jobs.txt", "echo x | crontab -", "crontab -r", "make-jobs | crontab"),
        allowed=("crontab -l", "cat crontab"),
        programs=("crontab",),
        test=tests.changes_jobs,
    ),
    CommandRule(
        "fork-bomb",
        "it is a function that calls itself without end",
        "Start a fixed number of processes.",
        refused=(":(){ :|:& };:", "b() { b | b & }; b", "f(){ f & }; f"),
        allowed=("echo ':(){ :|:& };:'", "f() { g | g & }; f", "f() { f; }"),
        programs=(SELF_STARTING,),
    ),
)

BUILTIN_RULES: tuple[CommandRule, ...] = (*_FILES_AND_RIGHTS, *DEVICE_RULES, *MACHINE_RULES)
