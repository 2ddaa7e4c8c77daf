#!/usr/bin/env bash
# deploy/croupierd.service keeps its promises: segments survive logouts, restarts are watched and hand over, one sampler that
# runs out of memory ends no session, and systemd's own audit rates the sandbox at 2.0 or better.
set -euo pipefail
cd "$(dirname "$0")/../.."
unit=deploy/croupierd.service
for line in Type=notify RemoveIPC=no LimitMEMLOCK=infinity Restart=always OOMPolicy=continue RestartKillSignal=SIGUSR1 \
    KillMode=mixed RuntimeDirectoryPreserve=restart RuntimeDirectoryMode=0711; do
    grep -qx "$line" "$unit" || { echo "$unit lacks $line"; exit 1; }
done
# The limit of starts is a key of [Unit]; in [Service] systemd ignores it.
sed '/^\[Service\]/,$d' "$unit" | grep -qx StartLimitIntervalSec=0 ||
    { echo "$unit lacks StartLimitIntervalSec=0 in [Unit]"; exit 1; }
# shm.group: chown is in @privileged, and other groups are mapped only without a user namespace.
sed '0,/^SystemCallFilter=~@privileged/d' "$unit" | grep -qE '^SystemCallFilter=.*@chown' ||
    { echo "$unit does not allow @chown after it takes @privileged away: shm.group cannot work"; exit 1; }
if grep -q '^PrivateUsers=yes' "$unit"; then
    echo "$unit has PrivateUsers=yes, which maps no group but the daemon's own: shm.group cannot work"
    exit 1
fi
grep -q '^WatchdogSec=' "$unit" || { echo "$unit lacks WatchdogSec"; exit 1; }
# The tool prints 12 for 1.2: the threshold is in tenths.
systemd-analyze security --offline=true --threshold=20 --no-pager "$unit" | tail -n 1
