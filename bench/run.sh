#!/usr/bin/env bash
# Runs every benchmark once and keeps the raw answers with their environment.
#   bench/run.sh BIN_FOLDER RESULT_FOLDER
set -euo pipefail
bin=$1
results=$2
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
file="$results/ipc-$(date -u +%Y%m%dT%H%M%SZ)-$commit.json"
echo "bench ipc: a bare ring, the plane and ZMQ (about ten seconds)"
"$bin/croupier" bench ipc
"$bin/croupier" bench ipc --json >"$file"
echo "raw: $file"
