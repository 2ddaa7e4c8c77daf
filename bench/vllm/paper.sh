# shellcheck shell=bash disable=SC2154
# For gpu_four.sh and gpu_eight.sh: what both measure of the SIMPLE paper. Sourced behind parts.sh and env.sh.

# FlashInfer's sampler is vLLM's best one; with it unless its kernels fail here.
choose_sampler() {
    export VLLM_USE_FLASHINFER_SAMPLER=1
    compile_kernels 150
    if ! timeout 60 python3 -c '
import torch
from flashinfer.sampling import top_k_top_p_sampling_from_logits as draw
logits = torch.randn(8, 152064, device="cuda")
k, p = (torch.full((8,), value, device="cuda", dtype=kind) for value, kind in ((50, torch.int32), (0.95, torch.float32)))
assert draw(logits, k, p, deterministic=True).shape == (8,)
' >"$work/flashinfer.txt" 2>&1; then
        VLLM_USE_FLASHINFER_SAMPLER=0
    fi
    say "FlashInfer's sampler: $VLLM_USE_FLASHINFER_SAMPLER"
}

# figures NAME SECONDS LAYOUTS [ARGUMENTS]: part NAME is arrivals.py, with CUDA graphs of steps with prompts too;
# where no engine of vLLM's works with these, without.
graphs=piecewise
figures() {
    local name=$1 seconds=$2 layouts=$3
    shift 3
    part "$name" "$seconds" 100 arrivals.py --layouts "$layouts" --graphs $graphs --patience 150 "$@"
    if ! grep -q '"native": {' "$work/$name/${layouts%%:*}.json" 2>/dev/null && [ $graphs = piecewise ]; then
        graphs=decode
        say "$name: once more, with CUDA graphs of steps that only decode"
        part "$name" "$seconds" 100 arrivals.py --layouts "$layouts" --graphs $graphs --patience 150 "$@"
    fi
}

small_shape=(--size 7b --layers 28 --memory 0.1 --cache-gib $((4 / ranks > 0 ? 4 / ranks : 1)))
# Of 72B's 80 layers as many as two engines have room for beside each other.
memory=$({ nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2>/dev/null || echo 0; } | head -1)
large_layers=${LAYERS:-$(((memory > 100000 ? 20 : 10) * (ranks > 4 ? 4 : ranks)))}
large_shape=(--size 72b --layers "$large_layers" --memory 0.3 --cache-gib 4)
# The paper's requests have all controls and no seed.
kinds=full_unseeded,full,greedy,temperature,mixed
