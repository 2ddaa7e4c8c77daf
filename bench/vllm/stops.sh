#!/usr/bin/env bash
# One GPU: steps that are computed for requests which a stop string has ended, with vLLM alone and with Croupier, and
# whether their texts are equal (stops.py), in less than 200 seconds.
#     bench/vllm/stops.sh OUT
# Needs build/vllm/croupier.tar.xz and build/vllm/vllm-RELEASE.tar.xz (package.sh). RELEASE is vLLM's, 0.33.0 unless
# given; TOTAL the seconds of all; ARGUMENTS are more of stops.py's. OUT gets stops.json, results.tar.xz and plan.txt.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ $# -ge 1 ] || { sed -n 2,6p bench/vllm/stops.sh >&2; exit 2; }
out=$1 total=${TOTAL:-195}
. bench/vllm/parts.sh
. bench/vllm/env.sh
say "unpacked: vLLM $release"
read -r -a more <<<"${ARGUMENTS:-}"
part stops $((total - 10)) 90 stops.py --size 1.5b --layers 28 --memory 0.3 --cache-gib 8 "${more[@]}"
cp "$work/stops/stops.json" "$out/" 2>/dev/null
grep -E '^(greedy|seeded) ' "$work/stops.txt"
finish
[ -e "$out/stops.json" ]
