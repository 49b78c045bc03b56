"""Kinds of commands that the judge missed at first, each with the ordinary work that lies next to it.

What changes the machine itself; what a search chose; programs that write by an option; text that comes
through a filter; patterns in the name of a home.
"""

import pytest

from interlock.commands.judge import CommandJudge
from interlock.config.protected_names import PROTECTED_NAMES
from tests.harness.case_tables import each_row

HOME, FOLDER = "/home/ann", "/home/ann/ws"
JUDGE = CommandJudge((), PROTECTED_NAMES, HOME)


def rule_of(command: str) -> str | None:
    refused = JUDGE.judge(command, FOLDER)
    return refused.rule if refused else None


@each_row(
    ("command", "rule"),
    [
        ("insmod ./x.ko", "change-kernel"),
        ("nice modprobe -r ext4", "change-kernel"),
        ("sysctl kernel.panic=1", "change-kernel"),
        ("sysctl --system", "change-kernel"),
        ("mount -o remount,rw /", "change-mounts"),
        ("mount / -o remount,ro", "remount"),
        ("umount -l /home", "change-mounts"),
        ("umount -a", "remount"),
        ("iptables -t nat -F", "change-network"),
        ("iptables-restore < rules", "change-network"),
        ("nft flush ruleset", "change-network"),
        ("nft -f rules.nft", "change-network"),
        ("ip a flush dev eth0", "change-network"),
        ("ufw --force reset", "change-network"),
        ("systemctl disable --now sshd.service", "stop-services"),
        ("systemctl stop systemd-networkd", "stop-services"),
        ("rc-service networking stop", "stop-services"),
        ("systemctl stop '*'", "stop-services"),
        ("systemctl start poweroff.target", "stop-machine-by-manager"),
        ("loginctl kill-user ann", "end-sessions"),
        ("fuser -km /", "signal-users-of-folder"),
        ("pkill -9 -f '.*'", "signal-system"),
        ("pkill '[a-z]'", "signal-system"),
        ("killall -r .", "signal-system"),
        ("list | crontab", "plan-jobs"),
    ],
)
def test_what_changes_the_whole_machine_is_refused(command, rule):
    assert rule_of(command) == rule


@each_row(
    "command",
    [
        *("modprobe -n loop", "lsmod", "modinfo loop", "sysctl -a", "sysctl -n kernel.ostype"),
        *("mount", "mount | grep ext4", "mount -o loop disk.img mnt", "mount --bind / mnt", "umount mnt"),
        *("nft --check -f rules.nft", "iptables-restore --test < rules", "nft -a list tables"),
        *("umount /mnt/usb", "iptables -L -n -v", "iptables -t nat -S", "nft list ruleset", "ufw status"),
        *("ip addr", "ip -br link show", "ip route get 192.0.2.1", "ip netns delete test", "ifconfig -a"),
        *("systemctl status sshd", "systemctl restart app", "systemctl stop postgresql"),
        *("systemctl --user stop dbus", "service nginx stop", "service --status-all"),
        *("loginctl list-sessions", "fuser -v /", "fuser -k 3000/tcp", "pkill -f 'node .*server'"),
        *("pkill -x node", "pkill -u ann .", "crontab -l", "./modprobe x", "./ip link set eth0 down"),
    ],
)
def test_what_only_looks_or_concerns_the_task_is_not(command):
    assert rule_of(command) is None


@pytest.mark.parametrize(
    "command",
    [
        "find / -name '*.conf' -print0 | xargs -0 rm -f",
        "find /etc -name '*.conf' | xargs rm",
        "find /etc -name '*.conf' | grep -v keep | xargs rm",
        "find /etc -newer x | head -5 | xargs rm -f",
    ],
)
def test_what_a_search_chose_in_system_folders_is_not_removed(command):
    assert rule_of(command) == "remove-system-files"


@pytest.mark.parametrize(
    "command",
    [
        "find ~ -name .DS_Store | xargs rm",
        "find ~ -type f | grep DS_Store | xargs rm -f",
        "find ~/src -name node_modules -prune -print0 | xargs -0 rm -rf",
        "find . -name '*.log' | head -3 | xargs rm",
        "find /tmp -name 'x*' | xargs rm -rf",
        "find /usr/local/lib -name '*.pyc' | xargs rm -f",
        "find / -name '*.h' 2>/dev/null | xargs grep -l x",
        "find /etc -name '*.conf' | while read -r file; do cp \"$file\" backup/; done",
    ],
)
def test_what_a_search_chose_elsewhere_or_only_reads_is(command):
    assert rule_of(command) is None


@each_row(
    "command",
    [
        "sed -Ei 's/a/b/' /etc/group",
        "sed -nri p /etc/passwd",
        "perl -0777 -pi -e 1 /etc/hosts",
        "gawk -i inplace 1 /etc/passwd",
        "ex -sc '%d|x' /etc/passwd",
        "nano /etc/sudoers",
        "patch /etc/passwd < x.diff",
        "dcfldd if=/dev/zero of=/etc/fstab",
        "tar xzf x.tgz -C /usr/bin",
        "tar --extract --file x --directory=/etc/cron.d",
        "unzip -o x.zip -d /boot",
        "wget -qP /usr/lib http://127.0.0.1/x",
        "curl -O --output-dir /etc/profile.d http://127.0.0.1/x",
        "tee -a /etc/hosts < x",
        "ln -sf x /etc/resolv.conf",
        "truncate -s 0 /var/lib/dpkg/status",
        "cp evil.list /etc/apt/sources.list.d/",
    ],
)
def test_a_write_to_what_the_system_trusts_is_seen_however_it_is_told(command):
    assert rule_of(command) == "write-system-file"


@each_row(
    "command",
    [
        *("sed -E 's/i/j/' /etc/group", "sed -ne p /etc/passwd", "perl -Ilib -ne print /etc/passwd"),
        *("awk -v i=1 '{print $1}' /etc/passwd", "view /etc/passwd", "vim -R /etc/hosts", "vim a.py"),
        *("patch -p1 < x.diff", "patch a.py x.diff", "tar xf x.tar -C vendor", "unzip x.zip -d out"),
        *(
            "tar czf x.tgz --exclude=a -C /usr/bin .",
            "tar cf index.tar -C /usr/lib x",
            "wget -P data http://x",
        ),
        *("cat /etc/hosts", "grep x /etc/resolv.conf > out", "cp /etc/hosts .", "dpkg -l"),
    ],
)
def test_reading_it_and_writing_elsewhere_is_ordinary(command):
    assert rule_of(command) is None


@each_row(
    "command",
    [
        "echo 'rm -rf /' | grep . | sh",
        "printf 'ls\\nrm -rf /\\n' | tail -1 | bash",
        "echo 'rm -rf /' | xargs -I{} sh -c '{}'",
        "echo 'rm -rf /' | xargs -0 sh -c",
        "xargs sh -c <<< \"'rm -rf /'\"",
        "printf '%s\\0' build /etc | xargs -0 rm -rf",
        "fd . / | xargs rm -rf",
        "rm -rf /h*/ann",
        "rm -rf /h??e/an*",
        "rm -rf /roo[t]",
    ],
)
def test_a_removal_is_seen_behind_filters_and_patterns(command):
    assert rule_of(command) == "remove-system-folder"


@pytest.mark.parametrize(
    "command",
    [
        "echo 'rm -rf /' | grep -c rm",
        "echo 'a b' | tr ' ' '\\n' | xargs rm -rf",
        "echo \"'a b' c\" | xargs rm -rf",
        "ls | grep -v keep | xargs rm -rf",
        'rm -rf "$(pwd)/build"',
        'cd "$(dirname "$0")" && rm -rf build',
        'rm -rf "$(realpath build)"',
        'root="$(cd .. && pwd)"; rm -rf "$root/dist"',
        'dst=; rm -rf "$dst/`basename "$dst"`"',
        "rm -rf /h*/ann/ws/build",
    ],
)
def test_ordinary_work_behind_filters_and_patterns_is_not_refused(command):
    assert rule_of(command) is None


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("find ~ -type f -exec truncate -s 0 {} +", "overwrite-system-folder"),
        ("find / -name '*.conf' -exec sed -i s/a/b/ {} +", "overwrite-system-folder"),
        ("grep -rl x /etc | xargs sed -i s/a/b/", "overwrite-system-folder"),
        ("rm -f /etc/*.conf", "remove-system-files"),
        ("rm() { echo no; }; rm -rf /etc", "remove-system-folder"),
        ("reboot() { /sbin/reboot; }; reboot", "stop-machine"),
    ],
)
def test_a_search_a_pattern_and_a_function_hide_nothing(command, rule):
    assert rule_of(command) == rule


@pytest.mark.parametrize(
    "command",
    [
        "find . -type f -exec sed -i s/a/b/ {} +",
        "find ~ -name '*.py' -exec sed -i s/a/b/ {} +",
        "grep -rl x src | xargs sed -i s/a/b/",
        "find src -name '*.c' -exec cp {} ~ \\;",
        "rm -f ~/*.log /tmp/*.tmp",
        "shutdown() { echo bye; }; trap shutdown EXIT; shutdown",
        'sudo() { "$@"; }; sudo make install',
        '"$bin"shutdown --now',
        "env target=build sh -c 'rm -rf $target'",
        "***************",
    ],
)
def test_a_search_a_pattern_a_variable_and_a_function_of_the_task_are_left_alone(command):
    assert rule_of(command) is None


@pytest.mark.parametrize(
    "command",
    [
        "command echo 'rm -rf /etc' | bash",
    ],
)
def test_what_a_wrapped_program_or_a_function_prints_is_known(command):
    assert rule_of(command) == "remove-system-folder"


@pytest.mark.parametrize(
    "command",
    [
        "name() { echo build; }; rm -rf $(name)",
        'here=$(bash -c pwd); rm -rf "$here/build"',
        "time echo build | xargs rm -rf",
        "systemctl stop 'my-app*'",
    ],
)
def test_what_they_print_of_the_task_is_left_alone(command):
    assert rule_of(command) is None
