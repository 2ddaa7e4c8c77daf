#!/usr/bin/env bash
# The units in deploy/ keep their promises. croupierd.service: segments survive logouts, restarts are watched and hand over, one
# sampler that runs out of memory ends no session. croupier-relay@.service: it is watched, has no user of its own and gets its key
# from root. systemd's own audit rates the sandboxes at 2.0 or better.
set -euo pipefail
cd "$(dirname "$0")/../.."
unit=deploy/croupierd.service
for line in Type=notify RemoveIPC=no LimitMEMLOCK=infinity Restart=always OOMPolicy=continue OOMScoreAdjust=-500 RestartKillSignal=SIGUSR1 \
    KillMode=mixed RuntimeDirectoryPreserve=restart RuntimeDirectoryMode=0711; do
    grep -qx "$line" "$unit" || { echo "$unit lacks $line"; exit 1; }
done
# shm.group: chown is in @privileged, and other groups are mapped only without a user namespace.
sed '0,/^SystemCallFilter=~@privileged/d' "$unit" | grep -qE '^SystemCallFilter=.*@chown' ||
    { echo "$unit does not allow @chown after it takes @privileged away: shm.group cannot work"; exit 1; }
if grep -q '^PrivateUsers=yes' "$unit"; then
    echo "$unit has PrivateUsers=yes, which maps no group but the daemon's own: shm.group cannot work"
    exit 1
fi
# What is the same for every unit of ours: the limit of starts is a key of [Unit], a watchdog looks on, and the sandbox holds.
check_any() {
    sed '/^\[Service\]/,$d' "$1" | grep -qx StartLimitIntervalSec=0 ||
        { echo "$1 lacks StartLimitIntervalSec=0 in [Unit]"; exit 1; }
    grep -q '^WatchdogSec=' "$1" || { echo "$1 lacks WatchdogSec"; exit 1; }
    # The tool prints 12 for 1.2: the threshold is in tenths.
    systemd-analyze security --offline=true --threshold=20 --no-pager "$1" | tail -n 1
}
check_any "$unit"

relay=deploy/croupier-relay@.service
for line in Type=notify Restart=always DynamicUser=yes SupplementaryGroups=croupier ExecStart=/usr/bin/croupier\ relay \
    LoadCredential=relay.key:/etc/croupier/relay-%i.key EnvironmentFile=/etc/croupier/relay-%i.env; do
    grep -qxF "$line" "$relay" || { echo "$relay lacks $line"; exit 1; }
done
check_any "$relay"
