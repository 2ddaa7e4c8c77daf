#!/usr/bin/env bash
# run_packages.sh BUILD [ROOT]: Debian's packages of this build are installed into ROOT (a bare system; else this machine's own, with
# all changes kept in memory), a real systemd boots there, and the unit keeps what docs/operations.md promises.
# Exit status 77 where no system can be booted.
set -euo pipefail
build=$1 lower=${2:-/}
here=$(cd "$(dirname "$0")" && pwd)
[ -x "$lower/lib/systemd/systemd" ] && command -v apt-get >/dev/null || { echo "no systemd, or no apt"; exit 77; }
unshare --mount --pid --ipc --uts --net --cgroup --fork true 2>/dev/null || { echo "this process may not make namespaces"; exit 77; }
folder=$(mktemp -d)
cpack --config "$build/CPackConfig.cmake" -B "$folder/packages" >"$folder/cpack.log" || { cat "$folder/cpack.log"; exit 1; }
mkdir "$folder/system"

unshare --mount "$here/boot_root.sh" "$lower" "$folder/system" "$folder/packages" >"$folder/boot.log" 2>&1 </dev/null &
boot=$!
end() {
    kill -KILL "$boot" 2>/dev/null || true
    wait "$boot" 2>/dev/null || true
    rm -rf "$folder"
}
trap end EXIT

init=
within() { nsenter --target "$init" --mount --pid --ipc --net --uts --cgroup --wdns=/ -- "$@"; }
as() { within setpriv --reuid "$1" --regid "$1" --init-groups "${@:2}"; }
fail() {
    echo "FAILED: $*"
    within journalctl --no-pager -n 60 -u croupierd -u "croupier-relay@*" 2>/dev/null || cat "$folder/boot.log"
    exit 1
}
# until_true SECONDS COMMAND...: a system that boots has no signal for who stands outside.
until_true() {
    local ends=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$ends" ] && kill -0 "$boot" 2>/dev/null || return 1
        sleep 0.1
    done
}
# The child of the boot script's last `unshare` is the system's first process.
find_init() {
    local child
    child=$(cat "/proc/$boot/task/$boot/children") && [ -n "$child" ] &&
        [ "$(cat "/proc/${child%% *}/comm")" = systemd ] && init=${child%% *}
}
until_true 120 find_init || fail "no system booted"
find_init
until_true 60 within systemctl is-active basic.target || fail "the system does not come up"
sim() { as "$1" croupier sim --endpoint ipc:///run/croupier/control.sock --vocab 4096 --batch 4 --prompt-max 32 --output-max 16 --json "${@:2}"; }
verified() { grep -q '"mismatched":0' "$1" && grep -q '"lost":0' "$1" && grep -q '"duplicated":0' "$1"; }
main_pid() { within systemctl show -P MainPID croupierd; }
handovers() { within journalctl --no-pager -u croupierd | grep -c "1 session waits for the next daemon"; }
journal_has() { within journalctl --no-pager -u croupierd | grep -q -- "$1"; }
said() { echo "  $1"; }

within systemctl enable --now croupierd || fail "enable --now right after the installation"
said "enable --now, with no step between: $(within systemctl is-active croupierd), as $(within systemctl show -P User croupierd)"

[ "$(within dpkg -S /usr/bin/croupier-sim /usr/bin/croupier-bench | cut -d: -f1 | sort -u)" = croupier-bench ] || fail "a simulated engine or benchmarks on every host"
within useradd --system --user-group --groups croupier engine
sim engine --steps 60 >"$folder/sim.json" && verified "$folder/sim.json" || fail "an engine of the group croupier: $(cat "$folder/sim.json")"
said "an engine of the group croupier decodes"

within useradd --system --user-group stranger
! sim stranger --steps 1 >"$folder/sim.json" 2>&1 || fail "somebody who is not of the group decodes"
said "somebody who is not of the group does not"

# An engine decodes on while what serves it is exchanged under it.
sim engine --steps 2500 --stage-ms 2 >"$folder/sim.json" 2>"$folder/sim.err" &
engine=$!
until_true 20 within sh -c 'ls /dev/shm/croupier/*.seg' || fail "no session: $(cat "$folder/sim.err")"
first=$(main_pid)
within systemctl restart croupierd || fail "restart"
until_true 10 journal_has "handed over" || fail "a restart did not hand over"
[ "$(main_pid)" != "$first" ] || fail "a restart that started nothing"
first=$(main_pid)
within systemctl kill --kill-who=main --signal=KILL croupierd
until_true 20 within sh -c "[ \"\$(systemctl show -P MainPID croupierd)\" != $first ] && systemctl is-active croupierd" || fail "no restart after SIGKILL"
within systemctl reload croupierd || fail "reload"
wait "$engine" && verified "$folder/sim.json" || fail "an engine over restart, SIGKILL and reload: $(cat "$folder/sim.json" "$folder/sim.err")"
said "an engine decodes over a restart, a SIGKILL and a reload: $(grep -o '"verified":[0-9]*' "$folder/sim.json") tokens"

# The same packages under the version that comes next.
next=$("$build/bin/croupierd" --version | awk -F. '{ print $1 "." $2 "." $3 + 1 }')
for package in "$folder"/packages/*.deb; do
    dpkg-deb --raw-extract "$package" "$folder/next"
    sed -i -E "s/^(Version: ).*/\1$next/; s/(croupier1?) \(= [^)]*\)/\1 (= $next)/" "$folder/next/DEBIAN/control"
    dpkg-deb --root-owner-group -Znone --build "$folder/next" "/proc/$init/root/tmp/$(basename "${package%%_*}")_next.deb" >/dev/null
    rm -r "$folder/next"
done
within sh -c 'echo "# edited" >>/etc/croupier/croupierd.yaml'
sim engine --steps 8000 --stage-ms 2 >"$folder/sim.json" 2>"$folder/sim.err" &
engine=$!
until_true 20 within sh -c 'ls /dev/shm/croupier/*.seg' || fail "no session: $(cat "$folder/sim.err")"
first=$(main_pid) before=$(handovers)
# apt may take longer than the engine decodes.
within env DEBIAN_FRONTEND=noninteractive sh -c 'exec dpkg --install /tmp/*_next.deb' >"$folder/upgrade.log" 2>&1 || fail "an upgrade: $(cat "$folder/upgrade.log")"
[ "$(main_pid)" != "$first" ] && [ "$(handovers)" -gt "$before" ] || fail "an upgrade hands no session over"
wait "$engine" && verified "$folder/sim.json" || fail "an engine over an upgrade: $(cat "$folder/sim.json" "$folder/sim.err")"
within grep -q "^# edited" /etc/croupier/croupierd.yaml || fail "an upgrade takes away what the operator wrote"
said "an engine decodes over an upgrade to $next: $(grep -o '"verified":[0-9]*' "$folder/sim.json") tokens"

# However often it fails, it comes up when the mistake is mended.
within cp /etc/croupier/croupierd.yaml /tmp/sound.yaml
within sh -c 'echo "nonsense: 1" >>/etc/croupier/croupierd.yaml'
within systemctl restart croupierd 2>/dev/null && fail "it starts with a mistake in its configuration"
journal_has "no handover (SIGUSR1): the next daemon could not start" || fail "a restart with a mistake handed over"
until_true 30 within sh -c '[ "$(systemctl show -P NRestarts croupierd)" -ge 6 ]' || fail "it gave up after $(within systemctl show -P NRestarts croupierd) starts"
within cp /tmp/sound.yaml /etc/croupier/croupierd.yaml
until_true 20 within systemctl is-active croupierd || fail "it does not come up again"
said "no handover with a mistake, 6 failed starts, and up again when the mistake was mended"

within groupadd engines
within usermod --append --groups engines croupier
within useradd --system --user-group --groups engines other
within sed -i 's/^  group: ""/  group: "engines"/' /etc/croupier/croupierd.yaml
within systemctl restart croupierd || fail "restart with shm.group"
sim other --steps 30 >"$folder/sim.json" 2>&1 && verified "$folder/sim.json" || fail "an engine of shm.group: $(cat "$folder/sim.json")"
said "an engine of another group, by shm.group"

# A relay waits for its scheduler, and is measured, before there is one; its key is root's alone.
within sh -c 'sed "s|SCHEDULER|127.0.0.1|; s|^CROUPIER_RELAY_ROOT_KEY=.*|CROUPIER_RELAY_ROOT_KEY=rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7|; s|^#\(.*METRICS\)|\1|" /usr/share/doc/croupier/relay.env >/etc/croupier/relay-one.env
    echo "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6" >/etc/croupier/relay-one.key && chmod 600 /etc/croupier/relay-one.key'
within systemctl enable --now croupier-relay@one || fail "a relay does not start: $(within journalctl --no-pager -n 20 -u croupier-relay@one)"
until_true 10 within bash -c 'exec 3<>/dev/tcp/127.0.0.1/9465 && printf "GET /metrics HTTP/1.0\r\n\r\n" >&3 && grep -q "^croupier_relay_joined 0" <&3' ||
    fail "a relay's metrics"
[ "$(within systemctl show -P StatusText croupier-relay@one)" = "waiting for a scheduler at tcp://127.0.0.1:7001" ] ||
    fail "a relay's status: $(within systemctl show -P StatusText croupier-relay@one)"
within systemctl kill --signal=KILL croupier-relay@one
until_true 10 within sh -c '[ "$(systemctl show -P NRestarts croupier-relay@one)" = 1 ] && systemctl is-active croupier-relay@one' || fail "no relay after a SIGKILL"
within systemctl stop croupier-relay@one && [ "$(within systemctl show -P Result croupier-relay@one)" = success ] || fail "a relay does not stop in order"
within rm /etc/croupier/relay-one.env /etc/croupier/relay-one.key
said "a relay waits for its scheduler, is measured, comes back after a SIGKILL and stops in order"

within systemctl stop croupierd || fail "stop"
[ -z "$(within find /dev/shm/croupier -type f)" ] || fail "left after a stop: $(within find /dev/shm/croupier -type f)"
within systemctl start croupierd
within env DEBIAN_FRONTEND=noninteractive apt-get purge -y croupier croupier-bench libcroupier1 libcroupier-dev >"$folder/purge.log" 2>&1 || fail "purge: $(cat "$folder/purge.log")"
for user in engine stranger other; do within userdel "$user"; done
within groupdel engines
within env DEBIAN_FRONTEND=noninteractive apt-get autoremove --purge -y >>"$folder/purge.log" 2>&1
# What systemd makes at the first boot of a bare system.
booted='^/(etc|var)/[.]updated|^/etc/(mtab|vconsole.conf|default/locale)'
within sh -c "/root/list-files >/root/files-after
    comm -13 /root/files-before /root/files-after | grep -vE '^/etc/(passwd|group|shadow|gshadow|subuid|subgid)-|^/var/(tmp|lib)/systemd|^/var/lib/PackageKit/|^/etc/machine-id|$booted' >/root/left || true"
# That the lists are there is looked at too: at boot /tmp is emptied.
within grep -qx /usr/bin/env /root/files-before && within grep -qx /usr/bin/env /root/files-after || fail "the lists of files are not there"
[ -z "$(within cat /root/left)" ] || fail "left after a purge: $(within cat /root/left)"
! within getent passwd croupier >/dev/null || fail "the user is left after a purge"
[ ! -e "/proc/$init/root/dev/shm/croupier" ] && [ ! -e "/proc/$init/root/run/croupier" ] || fail "a directory is left after a purge"
said "a purge leaves nothing"
echo "packages: fine"
