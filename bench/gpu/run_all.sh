#!/usr/bin/env bash
# Runs all tests and benchmarks that need a GPU. Run from the repository's root, with build/bundle made by
# `./dev bundle`.
#   OUT=FOLDER bench/gpu/run_all.sh     raw results and logs go to FOLDER (default: bench/results)
# If a part fails, the others continue; the exit status is the number of failures.
set -uo pipefail
cd "$(dirname "$0")/../.."
bundle=$PWD/build/bundle
out=${OUT:-bench/results}
failures=0

[ -x "$bundle/run" ] || { echo "cannot find $bundle: create it with ./dev bundle" >&2; exit 1; }
mkdir -p "$out"

# part NAME SECONDS COMMAND...: writes the output to NAME.log and prints its end.
part() {
    local name=$1 seconds=$2 status=0
    printf '\n== %s\n' "$name"
    timeout "$seconds" "${@:3}" >"$out/$name.log" 2>&1 || status=$?
    tail -n 25 "$out/$name.log"
    echo "== $name: $([ "$status" -eq 0 ] && echo passed || echo "failed (status $status)")"
    [ "$status" -eq 0 ] || failures=$((failures + 1))
}

sanitizer() {
    local candidate
    for candidate in "$(command -v compute-sanitizer)" /usr/local/cuda/bin/compute-sanitizer \
        /usr/local/cuda/compute-sanitizer/compute-sanitizer; do
        [ -x "$candidate" ] && { echo "$candidate"; return 0; }
    done
    return 1
}

# Without a GPU the tests would skip everything and pass.
export CROUPIER_TEST_GPU=required
part device 30 nvidia-smi --query-gpu=name,driver_version,pcie.link.gen.max,pcie.link.width.max --format=csv
part conformance 120 "$bundle/run" test_gpu_writer
part bench-writer 200 "$bundle/run" sh -c 'croupier bench writer --json >"$0"' "$out/writer.json"
if checker=$(sanitizer); then
    for tool in memcheck racecheck; do
        part "$tool" 100 "$bundle/run" "$checker" --tool "$tool" --error-exitcode 9 \
            "$bundle/bin/test_gpu_writer" "[sanitized]"
    done
else
    echo "compute-sanitizer is not installed: memcheck and racecheck were skipped"
    failures=$((failures + 1))
fi
echo
echo "$failures part(s) failed; results are in $out"
exit "$failures"
