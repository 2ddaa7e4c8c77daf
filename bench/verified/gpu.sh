#!/usr/bin/env bash
# One GPU: texts with and without verification, and throughput, of a decoder of Qwen2.5-1.5B's shape.
#     bench/verified/gpu.sh OUT
# Takes some 8 minutes on an H100. Needs torch on the host and the wheel of ./dev wheel in build/wheels. OUT gets
# rows-and-batchings.json and throughput.json, line by line, then summary.txt. REQUESTS, SIZE, DEVICE, TOKENS, GROUPS_OF,
# WIDTHS, ROUNDS, SAMPLERS and PYTHON change what is measured and how.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -eq 1 ] || { sed -n 2,7p bench/verified/gpu.sh >&2; exit 2; }
out=$1
mkdir -p "$out"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
. bench/gpu/venv.sh

measure() {
    echo "$SECONDS s: $1"
    # An H100's products of up to 64 rows do not depend on how many these are.
    "$venv_python" bench/verified/run.py "$out/$1.json" --split-k --size "${SIZE:-qwen2.5-1.5b}" \
        --device "${DEVICE:-cuda}" --transport lean --tokens "${TOKENS:-192}" --samplers "${SAMPLERS:-12}" "${@:2}"
}
status=0
measure rows-and-batchings --parts rows,batchings --requests "${REQUESTS:-64}" || status=1
measure throughput --parts throughput --running "${REQUESTS:-64}" --requests "$((3 * ${REQUESTS:-64}))" \
    --rounds "${ROUNDS:-1}" --groups "${GROUPS_OF:-4,8}" --widths "${WIDTHS:-16,32,64}" || status=1
"$venv_python" bench/verified/summary.py "$out"/{rows-and-batchings,throughput}.json | tee "$out/summary.txt"
echo "$SECONDS s: the end"
exit "$status"
