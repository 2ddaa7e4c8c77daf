#!/usr/bin/env bash
# One GPU, or TP of them: the kinds of requests that need hundreds of a row's tokens or all of them, beside vLLM's own
# sampler, in less than 570 seconds.
#     bench/vllm/long_kinds.sh OUT
# Needs build/vllm/croupier.tar.xz and build/vllm/vllm-RELEASE.tar.xz (package.sh). TP, SIDES, KINDS, BATCHES, RUNS,
# STEPS and TOTAL (seconds) change what is measured. OUT gets plan.txt, summary.json and results.tar.xz with all logs.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ $# -ge 1 ] || { sed -n 2,6p bench/vllm/long_kinds.sh >&2; exit 2; }
out=$1 total=${TOTAL:-560}
kinds=${KINDS:-greedy,topk200,topk500,allowed1000,biases300,min_p,repetition,min_tokens,typical,mirostat2,dynatemp_min_p,full,logprobs20,nine}
. bench/vllm/parts.sh
. bench/vllm/env.sh
say "unpacked: vLLM $release"
part table $((total - 60)) 90 decode.py --size 7b --layers 28 --memory 0.3 --cache-gib 16 \
    --tp "${TP:-1}" --sides "${SIDES:-native,croupier}" \
    --batches "${BATCHES:-256,64}" --kinds "$kinds" --steps "${STEPS:-50}" --runs "${RUNS:-2}" --equal 64 --equal-tokens 32
cp "$work/table/summary.json" "$out/summary.json" 2>/dev/null
finish
