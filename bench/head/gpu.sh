#!/usr/bin/env bash
# The fused head on one Hopper GPU: from the repository's root, with build/bundle of `./dev bundle` and the wheel of `./dev wheel`.
#     bench/head/gpu.sh OUT
# PARTS: tests (of test_gpu_writer), kernels (head_bench: checks, and times beside cuBLAS), steps (microseconds from hidden
# states to tokens, steps.json; no token of exact sums may differ), million (as many tokens of exact sums, million.json),
# kills (of workers, kills.json) and sanitizer (the tests under compute-sanitizer). STEPS has options of steps.py, KERNELS
# of head_bench. The status is how many parts failed.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ $# -eq 1 ] || { sed -n 2,8p bench/head/gpu.sh >&2; exit 2; }
out=$1 parts=${PARTS:-tests,kernels,steps,million,kills,sanitizer}
run=$PWD/build/bundle/run failures=0
mkdir -p "$out"
. bench/gpu/cublas.sh
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

wants() { [[ ,$parts, == *,$1,* ]]; }
# part NAME SECONDS COMMAND...: with its output in OUT/NAME.log.
part() {
    wants "$1" || return
    printf '[%3d s] %s\n' "$SECONDS" "$1"
    timeout "$2" "${@:3}" >"$out/$1.log" 2>&1 || { failures=$((failures + 1)); echo "$1 failed"; }
    tail -n "${TAIL:-40}" "$out/$1.log"
}

export CROUPIER_TEST_GPU=required
TAIL=25 part tests 150 "$run" test_gpu_writer "[head],*hidden states*"
read -ra kernels <<<"${KERNELS:---seconds 20}"
part kernels 30 "$run" head_bench --records "$out/kernels.jsonl" "${kernels[@]}"
if wants steps || wants million || wants kills; then
    . bench/gpu/venv.sh
    export PYTHONPATH=bench/vllm:bench/verified:bench/windows:bench/gpu${PYTHONPATH:+:$PYTHONPATH}
    read -ra steps <<<"${STEPS:-}"
    part steps 110 "$venv_python" bench/head/steps.py "$out/steps.json" "${steps[@]}"
    part million 400 "$venv_python" bench/head/steps.py "$out/million.json" --tokens --token-steps 900 \
        --token-columns 1,8,16,24,33,64,96,128,200
    part kills 120 "$venv_python" bench/head/kills.py "$out/kills.json"
fi
checker=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
sanitize() {
    for tool in memcheck racecheck; do
        "$run" "$checker" --tool "$tool" --error-exitcode 9 build/bundle/bin/test_gpu_writer "[head][sanitized]" || return
    done
}
export -f sanitize
export run checker
TAIL=8 part sanitizer 60 bash -c sanitize
printf '[%3d s] %d part(s) failed; results are in %s\n' "$SECONDS" "$failures" "$out"
exit "$failures"
