#!/usr/bin/env bash
# Whether nvcc has put traps into kernels: it does where code that a GPU shares with the host takes the address of a
# constant, as std::min() does of its arguments, and says nothing.
#   tests/gpu_kernels/no_traps.sh NVCC SOURCE_FOLDER INCLUDE_FOLDER
set -euo pipefail
nvcc=$1 source=$2 generated=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
for kernels in "$source"/gpu_writer/*.cu; do
    # Their waits are bounded by traps.
    [[ $kernels == */head_* ]] && continue
    "$nvcc" -ptx -arch=compute_90 -O3 -std=c++20 --expt-relaxed-constexpr --fmad=false -I"$source" -I"$source/include" \
        -isystem="$generated" -o "$work/ptx" "$kernels"
    traps=$(grep -c 'trap;' "$work/ptx" || true)
    [ "$traps" -eq 0 ] && continue
    echo "${kernels#"$source"/}: $traps trap(s): look for constants whose address is taken" >&2
    failures=$((failures + 1))
done
exit "$failures"
