# shellcheck shell=bash
# For the scripts beside it, on a GPU host with Python 3.12 and torch: unpacks what package.sh made, and says where it
# is. Sourced in the repository's root; PACKED is the folder with the archives.

here=${CROUPIER_SGLANG_PLACE:-/tmp/croupier-sglang-bench}
packed=${PACKED:-build/sglang}
if [ ! -e "$here/complete" ]; then
    mkdir -p "$here/sglang" "$here/croupier" "$here/kept"
    tar xJf "$packed"/sglang-*.tar.xz -C "$here/sglang" || exit 1
    tar xJf "$packed/croupier.tar.xz" -C "$here/croupier" || exit 1
    if [ -e "$packed/kernels.tar.xz" ]; then
        tar xJf "$packed/kernels.tar.xz" -C "$here/kept"
        # FlashInfer takes a library that lies here as it is, and would build another one anew.
        for library in "$here"/kept/.cache/flashinfer/*/*/cached_ops/*/*.so; do
            name=$(basename "$library" .so)
            mkdir -p "$here/sglang/flashinfer/data/aot/$name"
            cp "$library" "$here/sglang/flashinfer/data/aot/$name/"
        done
    fi
    # Engines with drafts name this module, which needs GPUs' kernels of its own, and call nothing of it here.
    touch "$here/sglang/deep_gemm.py"
    # Else each process of each engine compiles some thousand files when it imports them, all at once.
    python3 -m compileall -q -j 0 "$here/sglang" >/dev/null 2>&1
    touch "$here/complete"
fi
export PYTHONPATH=$here/croupier:$here/sglang:$here/croupier/bench
export LD_LIBRARY_PATH=$here/croupier/croupier/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export HF_HUB_OFFLINE=1 SGLANG_ENABLE_JIT_DEEPGEMM=0 NCCL_NVLS_ENABLE=0 TOKENIZERS_PARALLELISM=false PYTHONUNBUFFERED=1
# What FlashInfer, SGLang and Triton compile at first use.
export FLASHINFER_WORKSPACE_BASE=$here/kept TVM_FFI_CACHE_DIR=$here/kept/tvm TRITON_CACHE_DIR=$here/kept/triton
export SGLANG_CACHE_DIR=$here/kept/sglang

# keep_kernels ARCHIVE: what was compiled here, for the next machine's $PACKED/kernels.tar.xz.
keep_kernels() {
    tar c --exclude='*.o' --exclude='*.ninja*' -C "$here/kept" . | xz -T0 -3 >"$1"
}
