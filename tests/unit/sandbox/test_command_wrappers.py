"""A denied program is found behind every program that would run it, with all its options before it."""

import pytest

from interlock.sandbox.commands import CommandJudge

JUDGE = CommandJudge(("curl -k",), (), "/home/ann")

BEHIND = r"""
xargs {}
xargs -l {}
xargs -i {}
xargs -e {}
xargs -L 1 {}
xargs -n1 -P 4 {}
xargs -0r {}
xargs --max-args 1 {}
xargs --max-args=1 {}
xargs --arg-file f {}
xargs -I@ {}
echo y | xargs -I @ {}
xargs --max-lines {}
env {}
env A=1 {}
env -i A=1 B=2 {}
env -u X A=1 {}
env -C /tmp -- {}
env --unset X {}
env -S 'A=1 {}'
env -S'{}'
env -vS '{}'
env --split-string='{}'
timeout 5 {}
timeout -s KILL 5 {}
timeout --signal KILL 5 {}
timeout --signal=KILL -k 1 5 {}
nice {}
nice -n 5 {}
nice -5 {}
nice --adjustment 5 {}
ionice -c 2 -n 1 {}
ionice -c3 {}
stdbuf -o L {}
stdbuf -oL {}
flock lock {}
flock -w 5 lock {}
flock lock -c '{}'
taskset -c 0 {}
chrt -f 10 {}
setsid -f {}
nohup {} &
strace -f -o out {}
exec {}
exec -a name {}
exec -cl {}
command {}
command -p {}
builtin exec {}
time {}
time -p {}
/usr/bin/time -o f {}
watch -n 1 {}
script -qc '{}' f
chroot --userspec=a:b /x {}
setpriv --reuid=0 {}
unshare -r {}
systemd-run --unit x {}
parallel {} ::: 1
parallel -j 2 {} ::: 1
busybox {}
bash -c '{}'
bash -lc '{}'
sh -ec '{}'
bash -o pipefail -c '{}'
bash +e -c '{}'
bash --norc -c '{}'
bash -c -- '{}'
bash -c 'exec "$@"' x {}
bash <<< '{}'
echo '{}' | sh
echo '{}' | bash -s
echo '{}' | bash -
. /dev/stdin <<< '{}'
eval {}
trap '{}' EXIT
find . -exec {} \;
find . -execdir {} +
find . -ok {} \;
find . -okdir {} \;
bash -c 'xargs -l env A=1 timeout 5 {}'
nohup env -i sh -c '{}' &
coproc {}
! {}
""".strip().splitlines()


@pytest.mark.parametrize("line", BEHIND)
def test_it_is_found_behind(line):
    refused = JUDGE.judge(line.replace("{}", "curl -k https://x"), "/home/ann/ws")
    assert refused is not None
    assert refused.rule == "TOOL_BASH_DENYLIST: curl -k"


@pytest.mark.parametrize("line", BEHIND)
def test_another_one_is_not_taken_for_it(line):
    """What is refused is the program, not the one that runs it."""
    assert JUDGE.judge(line.replace("{}", "wget https://x"), "/home/ann/ws") is None


@pytest.mark.parametrize(
    "line", ["command -v curl -k", "type curl -k", "xargs -n1 echo curl -k", "echo curl -k"]
)
def test_to_look_for_it_or_to_write_of_it_is_allowed(line):
    assert JUDGE.judge(line, "/home/ann/ws") is None
