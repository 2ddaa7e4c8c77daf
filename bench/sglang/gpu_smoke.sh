#!/usr/bin/env bash
# The first run on a GPU host: both sides start and decode, greedy tokens are compared; OUT gets what was compiled.
#     PACKED=FOLDER bench/sglang/gpu_smoke.sh OUT
set -uo pipefail
cd "$(dirname "$0")/../.."
out=$1
mkdir -p "$out"
# shellcheck source=bench/sglang/env.sh
source bench/sglang/env.sh
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
# FlashInfer compiles its sampling kernels beside what else starts.
python3 -c 'from flashinfer.sampling import get_sampling_module as made; made()' >"$out/flashinfer.log" 2>&1 &
flashinfer=$!
timeout "${NATIVE_TIME:-200}" python3 bench/sglang/smoke.py "$out/native.json" native >"$out/native.log" 2>&1
echo "native: $?"
grep -E '^native:' "$out/native.log" || tail -25 "$out/native.log"
[ -s "$out/native.json" ] && wait $flashinfer
timeout "${OUR_TIME:-120}" python3 bench/sglang/smoke.py "$out/croupier.json" croupier >"$out/croupier.log" 2>&1
echo "croupier: $?"
grep -E '^croupier:|Croupier' "$out/croupier.log" || tail -25 "$out/croupier.log"
python3 bench/sglang/compare.py "$out/native.json" "$out/croupier.json"
keep_kernels "$out/kernels.tar.xz"
