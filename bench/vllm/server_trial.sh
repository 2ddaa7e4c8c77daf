#!/usr/bin/env bash
# One GPU: a server's trial (server_trial.py), natively and with Croupier, in less than 300 seconds behind unpacking.
#     bench/vllm/server_trial.sh OUT
# TOTAL is in seconds: with 420 or more the engine core is killed too, for which a third server starts. ARGUMENTS are
# more of the script's. RELEASE is vLLM's, 0.33.0 unless given. OUT gets table.txt, trial.json, results.tar.xz with the servers' logs, and plan.txt.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ $# -ge 1 ] || { sed -n 2,5p bench/vllm/server_trial.sh >&2; exit 2; }
out=$1 total=${TOTAL:-325}
. bench/vllm/parts.sh
. bench/vllm/env.sh
say "unpacked: vLLM $release"
[ -n "$tokenizer" ] || { say "no tokenizer: package.sh takes it by TOKENIZER"; exit 2; }
# Else the first request with a top-k compiles FlashInfer's kernels for a minute and a half, on native alone.
[ -d "$vllm/site/flashinfer/data/aot" ] || export VLLM_USE_FLASHINFER_SAMPLER=0
say "FlashInfer's sampling kernels: $VLLM_USE_FLASHINFER_SAMPLER; shared memory: $(df -h --output=size /dev/shm | tail -1)"
read -r -a more <<<"${ARGUMENTS:-}"
part trial "$total" 120 server_trial.py --tokenizer "$tokenizer/tokenizer.json" "${more[@]}"
cp "$work"/trial/{table.txt,trial.json} "$out/" 2>/dev/null
cat "$out/table.txt"
finish
