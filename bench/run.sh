#!/usr/bin/env bash
# Runs every benchmark once and keeps the raw answers with their environment.
#   bench/run.sh BIN_FOLDER RESULT_FOLDER [ROWS...]    (bf16 rows of 151,936 logits; none: generated ones)
set -euo pipefail
bin=$1
results=$2
rows=("${@:3}")
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
stamp=$(date -u +%Y%m%dT%H%M%SZ)-$commit
file="$results/ipc-$stamp.json"
echo "bench ipc: a bare ring, the plane and ZMQ (about ten seconds)"
"$bin/croupier" bench ipc
"$bin/croupier" bench ipc --json >"$file"
echo "raw: $file"

file="$results/decide-$stamp.json"
echo "bench decide: each case beside a plain read of its row (about ten seconds)"
"$bin/croupier" bench decide ${rows[0]:+--rows "${rows[@]}"}
"$bin/croupier" bench decide ${rows[0]:+--rows "${rows[@]}"} --json >"$file"
echo "raw: $file"
