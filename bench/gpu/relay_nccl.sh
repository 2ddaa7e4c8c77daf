#!/usr/bin/env bash
# Runs a session with a relay over NCCL and ranks on two GPUs, and verifies every token. Then compares records from
# GPU to GPU over NCCL and ZMQ (OUT/fan_out-gpu.json). Needs a host with two GPUs, no network, and under three minutes.
# Run from the repository's root, with build/bundle made by `./dev bundle`.
#   bench/gpu/relay_nccl.sh [OUT]
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-${OUT:-.}}
[ -x build/bundle/run ] || { echo "cannot find build/bundle: create it with ./dev bundle" >&2; exit 1; }
if ! ldconfig -p | grep -q libnccl.so.2; then
    nccl=$(find -L /usr/local /opt /usr/lib -name libnccl.so.2 2>/dev/null | head -n 1)
    [ -n "$nccl" ] && export LD_LIBRARY_PATH=${nccl%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
export CROUPIER_TEST_GPU=required
{
    timeout 60 build/bundle/run test_fan_out "[nccl]"
    timeout 90 build/bundle/run test_relay "*over NCCL*"
} 2>&1 | tee "$out/relay_nccl.txt"
timeout 60 build/bundle/run croupier-bench fan_out --rounds 1 --bytes 4096 1048576 16777216 --json >"$out/fan_out-gpu.json"
python3 -c 'import json, sys
for row in json.load(open(sys.argv[1]))["sizes"]:
    print(row["bytes"], {way: row[way].get("latency_us", {}).get("p50", row[way].get("not_measured")) for way in ("bare", "zmq", "nccl")})' "$out/fan_out-gpu.json" || true
