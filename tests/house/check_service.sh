#!/usr/bin/env bash
# deploy/croupierd.service keeps its promises: segments survive logouts, restarts are watched and hand over, one sampler that
# runs out of memory ends no session, and systemd's own audit rates the sandbox at 2.0 or better.
set -euo pipefail
cd "$(dirname "$0")/../.."
unit=deploy/croupierd.service
for line in Type=notify RemoveIPC=no LimitMEMLOCK=infinity Restart=always OOMPolicy=continue RestartKillSignal=SIGUSR1 \
    KillMode=mixed RuntimeDirectoryPreserve=restart; do
    grep -qx "$line" "$unit" || { echo "$unit lacks $line"; exit 1; }
done
# The limit of starts is a key of [Unit]; in [Service] systemd ignores it.
sed '/^\[Service\]/,$d' "$unit" | grep -qx StartLimitIntervalSec=0 ||
    { echo "$unit lacks StartLimitIntervalSec=0 in [Unit]"; exit 1; }
grep -q '^WatchdogSec=' "$unit" || { echo "$unit lacks WatchdogSec"; exit 1; }
# The tool prints 12 for 1.2: the threshold is in tenths.
systemd-analyze security --offline=true --threshold=20 --no-pager "$unit" | tail -n 1
