#!/usr/bin/env bash
# Tokens and times on one GPU: mixed decisions made again by the reference, then both sides' step times.
#     PACKED=FOLDER bench/sglang/gpu_one.sh OUT
set -uo pipefail
cd "$(dirname "$0")/../.."
out=$1
mkdir -p "$out"
# shellcheck source=bench/sglang/env.sh
source bench/sglang/env.sh
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
VOCAB=${VERIFY_VOCAB:-32000} timeout "${VERIFY_TIME:-120}" python3 bench/sglang/verify.py "$out/verify.json" \
    >"$out/verify.log" 2>&1
echo "verify: $?"
head -c 400 "$out/verify.json" || tail -25 "$out/verify.log"
for side in native croupier; do
    timeout "${SIDE_TIME:-150}" python3 bench/sglang/steps.py $side "$out/steps-$side.json" >"$out/steps-$side.log" 2>&1
    echo "$side: $?"
    grep -E "^$side" "$out/steps-$side.log" || tail -25 "$out/steps-$side.log"
done
