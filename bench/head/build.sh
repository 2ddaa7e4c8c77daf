#!/usr/bin/env bash
# Builds build/head/head_bench, for Hopper alone. It needs no GPU.
set -euo pipefail
cd "$(dirname "$0")/../.."
nvcc=${NVCC:-/usr/local/cuda/bin/nvcc}
target=(-gencode=arch=compute_90a,code=sm_90a)
to=build/head
mkdir -p "$to"
units=()
for source in bench/head/*.cu bench/head/*.cpp; do
    unit=$to/$(basename "${source%.*}").o
    units+=("$unit")
    [ -z "$(find bench/head -newer "$unit" 2>&1 | grep -E -v '\.(cu|cpp|sh)$')" ] && [ "$unit" -nt "$source" ] && continue
    echo "$source"
    "$nvcc" -std=c++20 -O3 -lineinfo -I. "${target[@]}" --expt-relaxed-constexpr -Xptxas -v -c "$source" \
        -o "$unit" >"${unit%.o}.log" 2>&1 || { cat "${unit%.o}.log" >&2; exit 1; }
done
"$nvcc" "${target[@]}" -cudart static "${units[@]}" -o "$to/head_bench" -ldl
# What slows kernels down, if there is any.
grep -h -E "warning|C75|bytes spill" "$to"/*.log | grep -v " 0 bytes spill stores" || true
