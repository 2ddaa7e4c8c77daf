#!/usr/bin/env bash
# peers.py where vLLM and FlashInfer are: with what bench/vllm/package.sh packed, in the repository's root.
#     bench/head/peers.sh OUT.json [OPTIONS]
# What is compiled at the first call takes minutes: call it before with --shapes 2048x512 --columns 1.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
. bench/vllm/env.sh
export PYTHONPATH=$PYTHONPATH:bench/vllm:bench/verified:bench/windows:bench/gpu
exec python3 bench/head/peers.py "$@"
