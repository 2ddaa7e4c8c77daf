#!/usr/bin/env bash
# One GPU, or two for data parallelism: vLLM's features with Croupier (gpu_features.py), in less than 570 seconds.
#     bench/vllm/gpu_features.sh OUT [lora,sleep,connector,offload,images,xgrammar,dp2]
# RELEASE is vLLM's, 0.33.0 unless given. AT_ONCE is how many features' pairs of servers are up together. OUT gets features.txt, features.json, results.tar.xz
# with the servers' logs, and plan.txt.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ $# -ge 1 ] || { sed -n 2,5p bench/vllm/gpu_features.sh >&2; exit 2; }
out=$1 only=${2:-} total=${TOTAL:-560}
. bench/vllm/parts.sh
. bench/vllm/env.sh
say "unpacked: vLLM $release"
[ -n "$tokenizer" ] || { say "no tokenizer: package.sh takes it by TOKENIZER"; exit 2; }
[ -d "$vllm/site/flashinfer/data/aot" ] || export VLLM_USE_FLASHINFER_SAMPLER=0
read -r -a more <<<"${only:+--only $only} --at-once ${AT_ONCE:-2}"
part features "$total" 120 gpu_features.py --tokenizer "$tokenizer/tokenizer.json" "${more[@]}"
cp "$work"/features/features.{txt,json} "$out/" 2>/dev/null
cat "$out/features.txt"
finish
