#!/usr/bin/env bash
# One GPU: step times, acceptance and streams with drafts, with vLLM's own sampler and with Croupier (speculation.py),
# in less than 570 seconds.
#     bench/vllm/speculation.sh OUT
# Needs build/vllm/croupier.tar.xz and build/vllm/vllm-0.33.0.tar.xz (package.sh). METHODS, KINDS, BATCHES, RUNS, STEPS
# and TOTAL (seconds) change what is measured, ARGUMENTS are more of speculation.py's; SIZE=7b has them for a model that keeps
# its GPU busy, whose streams are not compared. OUT gets speculation.json, steps.json, results.tar.xz with all logs,
# flashinfer.tar.xz with compiled kernels, and plan.txt.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ $# -ge 1 ] || { sed -n 2,8p bench/vllm/speculation.sh >&2; exit 2; }
out=$1 total=${TOTAL:-560}
. bench/vllm/parts.sh
. bench/vllm/env.sh
say "unpacked: vLLM $release"
large="--size 7b --layers 28 --rest 0.03 --equal 0 --memory 0.35 --cache-gib 14"
[ "${SIZE:-}" = 7b ] || large=
read -r -a more <<<"$large ${ARGUMENTS:-}"
part drafts $((total - 20)) 90 speculation.py --methods "${METHODS:-draft_model,eagle3,ngram}" \
    --kinds "${KINDS:-greedy,temperature,topp_penalties,full,mixed}" --batches "${BATCHES:-256,64,8,1}" \
    --steps "${STEPS:-50}" --runs "${RUNS:-2}" "${more[@]}"
cp "$work"/drafts/{speculation,steps}.json "$work/drafts.txt" "$out/" 2>/dev/null
grep -E '^(method|draft_model|eagle3|ngram|failed|skipped)' "$work/drafts.txt"
finish
[ -e "$out/speculation.json" ]
