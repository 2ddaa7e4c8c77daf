#!/usr/bin/env bash
# run_apart.sh BIN_FOLDER: what two containers have, without a container's tools. Daemon and engine run in network, PID, IPC and mount
# namespaces of their own, as users of their own with no capability, over a root file system that is read only. They share a group, the
# directory of the sockets and a /dev/shm. The daemon has deploy/container/croupierd.yaml. Exit status 77 where namespaces cannot be made.
set -euo pipefail
bin=$(cd "$1" && pwd)
deploy=$(cd "$(dirname "$0")/../../deploy" && pwd)
unshare --mount --net --pid --ipc --fork true 2>/dev/null || { echo "this process may not make namespaces"; exit 77; }
folder=$(mktemp -d)
chmod 0711 "$folder"
mkdir "$folder"/{bin,shared}
# The users of the two sides may not reach the build's folder.
cp "$bin"/{croupierd,croupier,croupier-sim} "$deploy/container/croupier-healthy" "$folder/bin"
cp "$deploy/container/croupierd.yaml" "$folder"

cat >"$folder/side" <<'END'
#!/usr/bin/env bash
# side FOLDER UID GID COMMAND...: in new namespaces, whose first process this is
set -e
folder=$1 uid=$2 gid=$3
mount --make-rprivate /
mount --bind "$folder/shared/shm" /dev/shm
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/croupier
mount --bind "$folder/shared/run" /run/croupier
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t proc proc /proc
mount -o remount,bind,ro /
ip link set lo up
exec setpriv --reuid "$uid" --regid "$gid" --clear-groups --inh-caps=-all --ambient-caps=-all --bounding-set=-all --no-new-privs "${@:4}"
END
# /tmp is another one inside, so what is needed of this folder is kept under another name.
place=/var/tmp/croupier-apart-$$
mkdir "$place"
chmod 0711 "$place"
mount --bind "$folder" "$place" 2>/dev/null || { rm -rf "$folder"; rmdir "$place"; echo "this process may not mount"; exit 77; }
mkdir "$place"/shared/{shm,run}
mount -t tmpfs -o size=1g,mode=1770,gid=4200 tmpfs "$place/shared/shm"
chown 10001:4200 "$place/shared/run"
chmod 0750 "$place/shared/run"

sides=()
daemon= daemon_side=
# The first process of a namespace takes the others with it. unshare's own --kill-child would not reach one that changes its user.
kill_all() {
    local child
    for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do kill_all "$child"; done
    kill -KILL "$1" 2>/dev/null || true
}
end() {
    local side
    for side in "${sides[@]}"; do
        kill_all "$side"
        wait "$side" 2>/dev/null || true
    done
    umount "$place/shared/shm"
    umount "$place"
    rm -rf "$folder"
    rmdir "$place"
}
trap end EXIT
fail() {
    echo "FAILED: $*"
    tail -n 40 "$folder"/log* "$folder"/*.json 2>/dev/null || true
    exit 1
}
said() { echo "  $1"; }
# Runs in the place of the shell that calls it.
apart() { exec unshare --mount --net --pid --ipc --fork bash "$place/side" "$place" "$@"; }
engine() (
    apart "$1" "$2" "$place/bin/croupier" sim --endpoint ipc:///run/croupier/control.sock --vocab 4096 --batch 8 --tp 2 --prompt-max 32 \
        --output-max 16 --json "${@:3}"
)
verified() { grep -q '"ok":true' "$1" && grep -q '"mismatched":0' "$1" && grep -q '"lost":0' "$1"; }
# until_true SECONDS COMMAND...: what the other side announces only to itself.
until_true() {
    local ends=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$ends" ] || return 1
        sleep 0.05
    done
}
within_daemon() { nsenter --target "$daemon" --mount --net --pid --ipc --wd=/ setpriv --reuid 10001 --regid 4200 --clear-groups "$@"; }
healthy() { within_daemon "$place/bin/croupier-healthy" "$@"; }
find_daemon() { daemon=$(cat "/proc/$daemon_side/task/$daemon_side/children") && daemon=${daemon%% *} && [ "$(cat "/proc/$daemon/comm")" = croupierd ]; }
start_daemon() {
    apart 10001 4200 "$place/bin/croupierd" --config "$place/croupierd.yaml" 2>>"$folder/log" &
    daemon_side=$!
    sides+=("$daemon_side")
    until_true 20 find_daemon || fail "no croupierd"
    find_daemon
    until_true 20 healthy /readyz || fail "the daemon does not become ready"
}
status_of() { awk -v key="$1:" '$1 == key { print $2 }' "/proc/$daemon/status"; }

start_daemon
for kind in CapInh CapPrm CapEff CapBnd CapAmb; do
    [ "$(status_of $kind)" = 0000000000000000 ] || fail "the daemon has capabilities: $kind $(status_of $kind)"
done
[ "$(status_of NoNewPrivs)" = 1 ] && [ "$(status_of Uid)" = 10001 ] && [ "$(awk '/^NSpid/ { print $NF }' "/proc/$daemon/status")" = 1 ] ||
    fail "the daemon is not the first process of its namespace, as 10001"
! within_daemon touch /usr/croupier-was-here 2>/dev/null || fail "its root file system can be written to"
healthy || fail "/livez"
said "croupierd is ready as 10001:4200, as process 1, without a capability, over a read-only root"

for chaos in writer client; do
    engine 10002 4200 --steps 100 --chaos "$chaos" --kills 3 >"$folder/$chaos.json" && verified "$folder/$chaos.json" &&
        grep -q '"kills":3' "$folder/$chaos.json" || fail "an engine whose $chaos is killed"
done
said "an engine as 10002:4200 in other namespaces decodes, while its writers and its client are killed"

! engine 10003 4300 --steps 1 --timeout-s 5 >"$folder/stranger.json" 2>&1 || fail "somebody of another group decodes"
said "somebody of another group does not: $(sed -n "1s/.*scheduler: //p" "$folder/stranger.json")"

# An engine decodes on, while its daemon is killed, and while one leaves its sessions to the next.
engine 10002 4200 --steps 1200 --stage-ms 4 >"$folder/sim.json" 2>"$folder/sim.log" &
decoding=$!
sides+=("$decoding")
has_session() { ls "$place"/shared/shm/croupier/*.seg; }
until_true 20 has_session || fail "no session"
kill -KILL "$daemon"
wait "$daemon_side" 2>/dev/null || true
! healthy 2>/dev/null || fail "a dead daemon is called healthy"
start_daemon
kill -USR1 "$daemon"
wait "$daemon_side" || fail "SIGUSR1 ends the daemon with $?"
grep -q "handed over\|hands over" "$folder/log" || fail "nothing was handed over"
start_daemon
kill -0 "$decoding" 2>/dev/null || fail "the engine was done before its daemons were exchanged"
wait "$decoding" && verified "$folder/sim.json" || fail "an engine over a SIGKILL and a hand-over"
said "an engine decodes over the daemon's SIGKILL and a hand-over: $(grep -o '"verified":[0-9]*' "$folder/sim.json") tokens"

kill -STOP "$daemon"
! answer=$(healthy) || fail "a daemon that stands still is called healthy"
kill -CONT "$daemon"
until_true 10 healthy || fail "it does not go on"
said "the health check: '$answer' of one that stands still"

kill -TERM "$daemon"
wait "$daemon_side" || fail "SIGTERM ends the daemon with $?"
[ -z "$(find "$place/shared/shm" -type f)" ] || fail "left in /dev/shm: $(find "$place/shared/shm" -type f)"
said "SIGTERM ends it, and nothing is left in /dev/shm"
