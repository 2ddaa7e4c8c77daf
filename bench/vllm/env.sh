# shellcheck shell=bash disable=SC2034
# For the scripts beside it, on a GPU host with Python 3.12 and torch: unpacks what package.sh made, and says where it
# is. Sourced in the repository's root. RELEASE is vLLM's, 0.33.0 unless given; package.sh packs each release apart.

here=${CROUPIER_VLLM_PLACE:-/tmp/croupier-vllm-bench}
release=${RELEASE:-0.33.0}
vllm=$here/vllm-$release
if [ ! -e "$vllm/complete" ]; then
    if [ ! -e "build/vllm/vllm-$release.tar.xz" ]; then
        echo "build/vllm/vllm-$release.tar.xz is missing: package.sh makes it from a pack of vLLM $release;" \
            "RELEASE=… chooses another release" >&2
        exit 1
    fi
    rm -rf "$vllm"
    mkdir -p "$vllm"
    tar xJf "build/vllm/vllm-$release.tar.xz" -C "$vllm" || exit 1
    # Else each process of each engine compiles some thousand files when it imports them, all at once.
    python3 -m compileall -q -j 0 "$vllm" >/dev/null 2>&1
    touch "$vllm/complete"
fi
# Croupier's own part is small, and another one at each call of the machine; not at each script of one call.
if [ -z "${CROUPIER_VLLM_UNPACKED:-}" ]; then
    rm -rf "$here/croupier"
    mkdir -p "$here/croupier"
    tar xJf build/vllm/croupier.tar.xz -C "$here/croupier" || exit 1
fi
tokenizer=
[ ! -e "$here/croupier/tokenizer" ] || tokenizer=$here/croupier/tokenizer

export CROUPIER_VLLM_UNPACKED=1
export RELEASE=$release PYTHONPATH=$here/croupier:$vllm:$vllm/site:$PWD/bench/vllm
export LD_LIBRARY_PATH=$here/croupier/croupier/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_HOST_IP=127.0.0.1 VLLM_LOGGING_LEVEL=${VLLM_LOGGING_LEVEL:-INFO}
# FlashInfer's sampler was seen with 0.26.0 alone.
[ "$release" = 0.26.0 ] || VLLM_USE_FLASHINFER_SAMPLER=${VLLM_USE_FLASHINFER_SAMPLER:-0}
export VLLM_USE_V2_MODEL_RUNNER=1 VLLM_USE_FLASHINFER_SAMPLER=${VLLM_USE_FLASHINFER_SAMPLER:-1}
# No multicast between GPUs: 0.33 would use FlashInfer's all-reduce unless told otherwise.
export VLLM_WORKER_MULTIPROC_METHOD=spawn VLLM_ALLREDUCE_USE_SYMM_MEM=0 VLLM_ALLREDUCE_USE_FLASHINFER=0 NCCL_NVLS_ENABLE=0
# The scripts hand functions to the workers, which set the weights.
export VLLM_ALLOW_INSECURE_SERIALIZATION=1
export TOKENIZERS_PARALLELISM=false PYTHONUNBUFFERED=1

# FlashInfer compiles its sampling kernels where it finds none, which takes 100 s, and Triton its own. Both are kept.
# FlashInfer takes a library below data/aot as it is, and asks ninja about none of its sources: so a kept one cannot
# be out of date by a clock or by a path. What it cannot see is for which GPU a library was made, and of which release.
flashinfer_release=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' "$vllm/site/flashinfer/_build_meta.py" 2>/dev/null)
gpu=$({ nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null || true; } | head -1)
export FLASHINFER_WORKSPACE_BASE=$here/kept TRITON_CACHE_DIR=$here/kept/triton
if [ -e build/vllm/flashinfer.tar.xz ] && [ ! -e "$here/kept" ]; then
    mkdir -p "$here/kept"
    tar xJf build/vllm/flashinfer.tar.xz -C "$here/kept" || rm -rf "$here/kept"
    if [ -d "$here/kept/aot/$flashinfer_release/$gpu" ]; then
        cp -r "$here/kept/aot/$flashinfer_release/$gpu" "$vllm/site/flashinfer/data/aot"
    fi
fi

# keep_kernels ARCHIVE: what was compiled here, for build/vllm/flashinfer.tar.xz of the next machine. 7 MB at most,
# for what travels has a limit in all.
keep_kernels() {
    local cached library parts
    for cached in "$here"/kept/.cache/flashinfer/"$flashinfer_release"/*/cached_ops; do
        for library in "$cached"/*/*.so; do
            [ -e "$library" ] || continue
            parts=$here/kept/aot/$flashinfer_release/$gpu/$(basename "$(dirname "$library")")
            mkdir -p "$parts" && cp "$library" "$parts/" && strip --strip-unneeded "$parts"/*.so 2>/dev/null
        done
    done
    local all=()
    [ ! -d "$here/kept/aot" ] || all+=(aot)
    [ ! -d "$here/kept/triton" ] || all+=(triton)
    [ ${#all[@]} -gt 0 ] || return 0
    tar c -C "$here/kept" "${all[@]}" | xz -T0 -6 >"$1"
    if [ "$(stat -c %s "$1")" -gt 7000000 ] && [ -d "$here/kept/aot" ]; then
        tar c -C "$here/kept" aot | xz -T0 -6 >"$1"
    fi
    [ "$(stat -c %s "$1")" -le 7000000 ] || rm "$1"
}
