#!/usr/bin/env bash
# Runs the GPU suites of a release (docs/releasing.md) side by side on the host's GPUs, on four in less than 420 seconds:
#     bench/gpu/release.sh OUT
# Their times are no figures: they share the cores. Needs build/bundle (./dev bundle) and the archives of
# bench/vllm/package.sh and bench/sglang/package.sh. OUT gets plan.txt, and logs.tar.xz as each suite ends. The status
# is how many suites failed.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ $# -eq 1 ] || { sed -n 2,6p bench/gpu/release.sh >&2; exit 2; }
out=$1 work=$(mktemp -d) failures=0
mkdir -p "$out"
trap 'rm -rf "$work"' EXIT
# Unpacked once, for two suites.
. bench/vllm/env.sh
say() { printf '[%3d s] %s\n' "$SECONDS" "$*" | tee -a "$out/plan.txt"; }
# limited COMMAND...: what the script starts ends with it.
limited() { timeout --kill-after=5 "${LIMIT:-400}" "$@"; }

writer() { OUT=$work/writer limited bench/gpu/run_all.sh; }
vllm() { limited bench/vllm/release_proof.sh "$work/vllm"; }
sglang() { PARTS=tokens limited bench/sglang/gpu_one.sh "$work/sglang"; }
# Python's tests with the package that vLLM's archive has, and windows with kills, whose tokens are all verified.
windows() {
    CROUPIER_TEST_GPU=required LIMIT=150 limited python3 -m pytest -q -p no:cacheprovider python/tests/gpu_test.py &&
        PARTS=tests,sim LIMIT=240 limited bench/windows/gpu.sh "$work/windows"
}

gpus=$(nvidia-smi --list-gpus | grep -c ^GPU)
[ "$gpus" -gt 0 ] || { say 'no GPU'; exit 1; }
declare -A running=()
for suite in writer vllm sglang windows; do
    CUDA_VISIBLE_DEVICES=$((${#running[@]} % gpus)) $suite >"$work/$suite.txt" 2>&1 &
    running[$suite]=$!
done
for suite in writer windows sglang vllm; do
    status=0
    wait "${running[$suite]}" || status=$?
    say "$suite: ended with $status"
    tail -n 15 "$work/$suite.txt" | cut -c 1-300 | tee -a "$out/plan.txt"
    [ "$status" -eq 0 ] || failures=$((failures + 1))
    tar c -C "$work" . | xz -T0 -3 >"$out/logs.tar.xz"
done
say "$failures suite(s) failed"
exit "$failures"
