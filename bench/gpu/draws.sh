#!/usr/bin/env bash
# Measures draws on a GPU host's processor, and checks that its instruction sets and its GPU give identical races.
# Run from the repository's root, with build/bundle made by `./dev bundle`.
#   OUT=FOLDER bench/gpu/draws.sh [ROWS...]   logs and results go to FOLDER (default: bench/results);
#                                             ROWS: files with bf16 rows (default: generated rows)
#   PARTS="decide.json step.json" ...         run only these parts
#   HOT=FILE ...                              ids by count, hottest first; also writes shvs.json
# If a part fails, the others continue; the exit status is the number of failures.
set -uo pipefail
cd "$(dirname "$0")/../.."
bundle=$PWD/build/bundle
out=${OUT:-bench/results}
rows=()
[ $# -eq 0 ] || rows=(--rows "$@")
failures=0

[ -x "$bundle/run" ] || { echo "cannot find $bundle: create it with ./dev bundle" >&2; exit 1; }
mkdir -p "$out"

# part NAME SECONDS COMMAND...: writes the output to NAME and prints the end of its errors.
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

# Without a GPU the tests would skip everything and pass.
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
