"""A denied program is found behind every program that would run it, with all its options before it."""

from interlock.commands.judge import CommandJudge
from tests.harness.case_tables import each_row

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
setpriv --reuid=1000 {}
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
xargs --replace {}
xargs --max-chars 900 {}
env curl -k -S https://x
timeout --sig KILL 5 {}
flock --wait 5 lock {}
flock lock --command '{}'
flock lock curl -c jar -k
unshare --propagation private {}
nsenter -t 1 -r {}
setpriv --pdeathsig keep {}
trap -- '{}' EXIT
trap -- '{}' INT TERM
trap "{}" 0
eval -- {}
eval -- '{}'
builtin eval -- {}
setarch x86_64 {}
setarch x86_64 -R {}
setarch x86_64 --addr-no-randomize -v -- {}
setarch -R {}
setarch linux32 sh -c '{}'
linux32 {}
linux64 -R {}
i386 {}
x86_64 -R -- {}
numactl {}
numactl -N 0 -m 0 {}
numactl --cpunodebind=0 --membind 0 {}
numactl --physcpu 0 --localalloc -- {}
prlimit {}
prlimit -n100 --cpu=5:6 {}
prlimit --nofile -n {}
prlimit --output SOFT -- {}
cpulimit -l 50 -- {}
cpulimit --limit=50 -i {}
cpulimit --limit 50 {}
torsocks {}
torsocks -u me -p word -i {}
torify {}
torsocks --address 127.0.0.1 {}
proxychains {}
proxychains -q -f conf {}
proxychains4 -f conf {}
tini -- {}
tini -s -g -p KILL -e 143 -- {}
dumb-init {}
dumb-init --rewrite 15:3 -v -- {}
dumb-init -r 15:3 {}
catchsegv {}
unbuffer -p {}
rlwrap {}
rlwrap -c -i {}
rlwrap -a -C name --file words {}
firejail {}
firejail --net=none --quiet -- {}
systemd-run {}
systemd-run -t --user {}
systemd-run --scope -p A=1 --setenv B=2 --on-active 5 {}
systemd-run --wait --pipe -- {}
sg users '{}'
sg users -c '{}'
sg - users -c '{}'
! {}
valgrind -q {}
valgrind --tool=memcheck --log-file=f {}
fakeroot -i f -s f -- {}
eatmydata {}
choom -n 100 -- {}
chronic {}
ssh-agent -t 5 {}
dbus-launch --exit-with-session {}
ls | entr -r {}
ls | entr -s '{}'
hyperfine -w 3 true '{}'
hyperfine --prepare='{}' true
at now <<< '{}'
echo '{}' | at now + 1 minute
uv run {}
uv run --with x -- {}
poetry run {}
bundle exec {}
conda run -n base {}
direnv exec . {}
rustup run stable {}
npm exec -- {}
npm --prefix x exec {}
npm exec -c '{}'
npx --call='{}'
nix-shell -p git --run '{}'
git bisect run {}
git rebase -x '{}' HEAD~3
git rebase --exec='{}' HEAD~3
git submodule foreach '{}'
git -C sub submodule foreach --recursive {}
tar xf a --to-command='{}'
tar --to-command '{}' -xf a
tar cf a -I '{}' src
rsync -e '{}' a b:
rsync -ave '{}' a b:
rsync --rsh='{}' a b:
zip x.zip f -T -TT '{}'
csh -c '{}'
tcsh -fc '{}'
man -P '{}' ls
perf stat -e cycles {}
perf record -g -o f -- {}
chpst -u me -m 9 {}
screen -dmS name {}
tmux new-session -d -s name {}
tmux new -d '{}'
""".strip().splitlines()


@each_row("line", BEHIND)
def test_it_is_found_behind(line):
    refused = JUDGE.judge(line.replace("{}", "curl -k https://x"), "/home/ann/ws")
    assert refused is not None
    assert refused.rule == "TOOL_BASH_DENYLIST: curl -k"


@each_row("line", BEHIND)
def test_another_one_is_not_taken_for_it(line):
    """What is refused is the program, not the one that runs it."""
    line = line.replace("{}", "wget https://x").replace("curl", "wget")
    assert JUDGE.judge(line, "/home/ann/ws") is None


ONLY_NAMED = r"""
command -v curl -k
type curl -k
xargs -n1 echo curl -k
echo curl -k
trap -- 'echo curl -k' EXIT
trap - EXIT
trap -- EXIT
trap -p 'curl -k'
trap
eval
eval --
eval -- echo curl -k
setarch --list
setarch x86_64
setarch x86_64 -R echo curl -k
x86_64 uname -m
numactl --hardware
numactl -N 0 grep curl -k
prlimit --pid 1
prlimit --pid 1 --nofile=100
cpulimit -l 50 -e curl -k
torsocks --version
proxychains4 -f curl ls -k
tini --version
tini -- man curl -k
dumb-init -r 15:3 echo curl -k
rlwrap -C curl cat -k
rlwrap -H curl cat -k
firejail --list
firejail --name=curl ls -k
systemd-run --unit curl ls -k
systemd-run --description curl -t ls -k
start-stop-daemon --stop --exec curl -- -k
start-stop-daemon --status -x curl
start-stop-daemon --start --pidfile curl --exec ls -- -k
runcon curl ls -k
runcon
sg curl -c 'ls -k'
sg users
flock curl ls -k
flock 9
script curl
valgrind --log-file=curl ls -k
choom -p 1
ls | entr echo curl -k
ssh-agent -s
hyperfine 'echo curl -k'
at now -f curl -k
ssh host curl -k
ssh -p 22 me@build.example 'curl -k'
uv pip install curl -k
uv run echo curl -k
npm run curl -k
npm exec echo curl -k
git commit -m 'curl -k'
git log --grep='curl -k'
git -c user.name='curl -k' commit
git config alias.x 'curl -k'
git config user.name 'curl -k'
git bisect good curl -k
git rebase -i curl -k
git submodule add curl -k
NOTE='curl -k' git log
export NOTE='curl -k'
tar -cf curl -k
tar xf a --transform='curl -k'
rsync -a curl -k b:
bash -c 'echo "$0"' 'curl -k'
alias x='curl -k'
alias ls='ls --color'; ls curl -k
read -r c <<< 'curl -k'; echo "$c"
read -r c <<< 'curl -k'; read -r c < f; $c
while read -r c; do echo "$c"; done <<< 'curl -k'
c=curl.exe; ${c%.py} -k
c=curl; ${c/x/y}e -k
{ read -r c; echo "$c"; } <<< 'curl -k'
{ cat; bash x.sh; } <<< 'curl -k'
perf report -i curl -k
tmux rename-window 'curl -k'
screen -ls curl -k
man curl -k
"""


@each_row("line", ONLY_NAMED.strip().splitlines())
def test_to_look_for_it_or_to_write_of_it_is_allowed(line):
    assert JUDGE.judge(line, "/home/ann/ws") is None
