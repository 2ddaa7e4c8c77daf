#!/usr/bin/env bash
# Runs more random cases than the tests do, on a host with many cores. Run from the repository's root, with
# build/bundle made by `./dev bundle`.
#   OUT=FOLDER CORES=16 bench/gpu/exact.sh      logs go to FOLDER (default: bench/results)
#   CASES=75000 FULL=720 LARGE=1000 CUT=9100 ...
#                                               cases per process: up to 700 ids, rows of a model, random rows with a
#                                               real vocabulary; decisions of the cut
#   FUZZ=300 ...                                also run each fuzzer in build/bundle/fuzz twice for this many seconds:
#                                               mkdir build/bundle/fuzz; strip -o build/bundle/fuzz/NAME build/fuzz/bin/NAME
set -uo pipefail
cd "$(dirname "$0")/../.."
run=$PWD/build/bundle/run
out=${OUT:-bench/results}
cores=${CORES:-$(nproc)}
mkdir -p "$out"
[ -x "$run" ] || { echo "cannot find $run: create it with ./dev bundle" >&2; exit 1; }

fuzz() {
    local name=$1 worker=$2
    mkdir -p "/tmp/corpus/$name"
    timeout $((FUZZ + 60)) "$run" "build/bundle/fuzz/$name" -max_total_time="$FUZZ" -print_final_stats=1 -seed="$((worker + 1))" \
        "/tmp/corpus/$name" >"$out/$name-$worker.log" 2>&1
    echo "$name $worker: status $?, $(grep -m1 number_of_executed_units "$out/$name-$worker.log")"
}

if [ -n "${FUZZ:-}" ]; then
    for fuzzer in build/bundle/fuzz/*; do
        for worker in 0 1; do fuzz "$(basename "$fuzzer")" "$worker" & done
    done
    cores=$((cores - 2 * $(find build/bundle/fuzz -type f | wc -l)))
fi

# suite NAME SEED VARIABLE=VALUE TESTS: of test_sampler.
suite() {
    local log="$out/$1-$2.log"
    env "CROUPIER_ORACLE_SEED=$2" "$3" "$run" test_sampler "$4" >"$log" 2>&1
    echo "$1, seed $2: status $?, $(tail -n 2 "$log" | head -n 1)"
}
[ "${CUT:-9100}" = 0 ] || suite cut 0 "CROUPIER_CUT_CASES=${CUT:-9100}" "a request draws the same token*" &
for ((i = 1; i < cores; ++i)); do
    { suite oracle $((i * 1000)) "CROUPIER_ORACLE_CASES=${CASES:-75000}" "every mixture*"
      suite full $((i * 1000)) "CROUPIER_ORACLE_FULL_CASES=${FULL:-720}" "a model's rows*"
      suite large $((i * 1000)) "CROUPIER_ORACLE_LARGE_CASES=${LARGE:-1000}" "rows of a real*"; } &
done
wait
