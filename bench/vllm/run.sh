#!/usr/bin/env bash
# On a GPU host with Python 3.12 and torch: unpacks what bench/vllm/package.sh made, and runs decode.py.
#     bench/vllm/run.sh FOLDER [ARGUMENTS OF decode.py]
# Results are FOLDER/*.json, the whole log is FOLDER/log.txt.
set -uo pipefail
cd "$(dirname "$0")/../.."

[ $# -ge 1 ] || { sed -n 2,4p bench/vllm/run.sh >&2; exit 2; }
folder=$1
shift
here=${CROUPIER_VLLM_PLACE:-/tmp/croupier-vllm-bench}
if [ ! -e "$here/complete" ]; then
    rm -rf "$here"
    mkdir -p "$here/vllm"
    tar xJf build/vllm/vllm.tar.xz -C "$here/vllm" || exit 1
fi
# Croupier's own part is small, and another one at each run.
rm -rf "$here/croupier"
mkdir -p "$here/croupier" "$folder"
tar xJf build/vllm/croupier.tar.xz -C "$here/croupier" || exit 1
touch "$here/complete"

export PYTHONPATH=$here/croupier:$here/vllm:$here/vllm/site
export LD_LIBRARY_PATH=$here/croupier/croupier/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_HOST_IP=127.0.0.1 VLLM_LOGGING_LEVEL=${VLLM_LOGGING_LEVEL:-INFO}
export VLLM_USE_V2_MODEL_RUNNER=1 VLLM_USE_FLASHINFER_SAMPLER=${VLLM_USE_FLASHINFER_SAMPLER:-1}
export VLLM_WORKER_MULTIPROC_METHOD=spawn VLLM_ALLREDUCE_USE_SYMM_MEM=0 NCCL_NVLS_ENABLE=0
# decode.py hands functions to the workers, which set the weights.
export VLLM_ALLOW_INSECURE_SERIALIZATION=1

python3 bench/vllm/decode.py "$folder" "$@" 2>&1 | tee "$folder/log.txt" | grep -vE '^\(?(INFO|DEBUG|.*\[Gloo\])'
status=${PIPESTATUS[0]}
cp "${XDG_RUNTIME_DIR:-/tmp}"/croupier-vllm*/croupierd.log "$folder/" 2>/dev/null
rm -rf "$folder/model"
exit "$status"
