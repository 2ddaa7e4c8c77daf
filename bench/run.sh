#!/usr/bin/env bash
# Runs the main benchmarks once and stores the raw results with their environment.
#   bench/run.sh BIN_FOLDER RESULT_FOLDER [ROWS...]    (bf16 rows of 151,936 logits; default: generated rows)
set -euo pipefail
bin=$1
results=$2
rows=("${@:3}")
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
stamp=$(date -u +%Y%m%dT%H%M%SZ)-$commit
file="$results/ipc-$stamp.json"
echo "bench ipc: latency of a decision, a bare ring and ZMQ (about ten seconds)"
"$bin/croupier" bench ipc
"$bin/croupier" bench ipc --json >"$file"
echo "raw results: $file"

file="$results/decide-$stamp.json"
echo "bench decide: decisions and plain reads of their rows (about ten seconds)"
"$bin/croupier" bench decide ${rows[0]:+--rows "${rows[@]}"}
"$bin/croupier" bench decide ${rows[0]:+--rows "${rows[@]}"} --json >"$file"
echo "raw results: $file"
