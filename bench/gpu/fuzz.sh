#!/usr/bin/env bash
# Runs every fuzzer for just under ten minutes, and the slowest tests under asan-ubsan, on a host with 16 cores. Run
# from the repository's root, with build/fuzzpack.tgz: bundle/fuzz has the fuzzers, bundle/asan test_sampler, and
# bundle/lib their libraries.
#   SECONDS_EACH=585 OUT=FOLDER bench/gpu/fuzz.sh
set -uo pipefail
cd "$(dirname "$0")/../.."
out=${OUT:-bench/results}
seconds=${SECONDS_EACH:-585}
mkdir -p "$out" /tmp/pack && tar xzf build/fuzzpack.tgz -C /tmp/pack
export LD_LIBRARY_PATH=/tmp/pack/bundle/lib
for fuzzer in /tmp/pack/bundle/fuzz/*; do
    name=$(basename "$fuzzer")
    for worker in 1 2; do
        {
            mkdir -p "/tmp/corpus/$name"
            "$fuzzer" -max_total_time="$seconds" -print_final_stats=1 -seed="$worker" "/tmp/corpus/$name" >"/tmp/$name-$worker.log" 2>&1
            echo "$name $worker: status $?, $(grep -m1 number_of_executed_units "/tmp/$name-$worker.log")" >>"$out/fuzz.txt"
        } &
    done
done
for test in "draws follow the softmax at*" "draws after filters*" "proposals are drawn by*" "a race under one filter*"; do
    {
        timeout "$seconds" /tmp/pack/bundle/asan/test_sampler "$test" >"/tmp/asan.${test//[ *]/_}.log" 2>&1
        echo "asan-ubsan, $test: status $?, $(tail -n 2 "/tmp/asan.${test//[ *]/_}.log" | head -n 1)" >>"$out/fuzz.txt"
    } &
done
wait
{ date -u; nproc; grep -m1 'model name' /proc/cpuinfo; cat "$out/fuzz.txt"; } | tee "$out/fuzz-all.txt"
for log in /tmp/fuzz_*.log; do grep -l "ERROR\|SUMMARY" "$log" && tail -c 3000 "$log"; done
true
