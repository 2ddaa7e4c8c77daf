#!/usr/bin/env bash
# What draws cost on a GPU host's processor, and whether its instruction sets and its GPU race bit for bit
# alike: from the repository's root, with build/bundle made by `./dev bundle`.
#   OUT=FOLDER bench/gpu/draws.sh [ROWS...]   logs and results go to FOLDER (default: bench/results);
#                                             ROWS: files of bf16 rows (default: generated ones)
#   PARTS="decide.json step.json" ...         these parts alone
#   HOT=FILE ...                              the ids by their counts, hottest first: shvs.json too
# A part that fails says so and the others go on; the exit status counts the failures.
set -uo pipefail
cd "$(dirname "$0")/../.."
bundle=$PWD/build/bundle
out=${OUT:-bench/results}
rows=()
[ $# -eq 0 ] || rows=(--rows "$@")
failures=0

[ -x "$bundle/run" ] || { echo "there is no $bundle: make it with ./dev bundle" >&2; exit 1; }
mkdir -p "$out"

# part NAME SECONDS COMMAND...: what it prints goes to NAME, the end of its errors here too.
part() {
    local name=$1 seconds=$2 status=0
    [[ -z ${PARTS:-} || " $PARTS " == *" $name "* ]] || return 0
    printf '\n== %s\n' "$name"
    timeout "$seconds" "$bundle/run" "${@:3}" >"$out/$name" 2>"$out/$name.errors" || status=$?
    tail -n 5 "$out/$name.errors"
    [ "${name##*.}" = json ] || tail -n 12 "$out/$name"
    echo "== $name: $([ "$status" -eq 0 ] && echo passed || echo "failed (status $status)")"
    [ "$status" -eq 0 ] || failures=$((failures + 1))
}

# Without it the GPU's tests would skip what they cannot run, and pass.
export CROUPIER_TEST_GPU=required
lscpu | grep -E '^(Model name|CPU\(s\)):' | tee "$out/machine.txt"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee -a "$out/machine.txt"
part conformance.log 150 test_gpu_writer
part race-instruction-sets.log 120 test_sampler "[.race-100M]" -d yes
part decide.json 150 croupier bench decide "${rows[@]}" --cases all --temperatures 0.6,0.8,1,1.5 --rounds 6 --json
part histories.json 60 croupier bench decide "${rows[@]}" --cases full,full+dry --history 1k,128k --rounds 10 --json
part dtypes.json 60 croupier bench decide "${rows[@]}" --cases temperature,topp,full,typical --dtype bf16,fp16,fp32 --ranks 1,4 --rounds 4 --json
part rounding.json 60 croupier bench rounding "${rows[@]}" --draws 20000 --json
part step.json 120 croupier bench step "${rows[@]}" --steps 8 --json
part ipc.json 60 croupier bench ipc --json
[ -z "${HOT:-}" ] || part shvs.json 240 croupier bench shvs "${rows[@]}" --hot "$HOT" --json
echo
echo "$failures part(s) failed; results are in $out"
exit "$failures"
