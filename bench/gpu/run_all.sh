#!/usr/bin/env bash
# All that needs a GPU, in one run: from the repository's root, with build/bundle made by `./dev bundle`.
#   OUT=FOLDER bench/gpu/run_all.sh     raw results and logs go to FOLDER (default: bench/results)
# A part that fails says so and the others go on; the exit status counts the failures.
set -uo pipefail
cd "$(dirname "$0")/../.."
bundle=$PWD/build/bundle
out=${OUT:-bench/results}
failures=0

[ -x "$bundle/run" ] || { echo "there is no $bundle: make it with ./dev bundle" >&2; exit 1; }
mkdir -p "$out"

# part NAME SECONDS COMMAND...: its output goes to NAME.log, the end of it here too.
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

# Without it the suite would skip what it cannot run, and pass.
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
    echo "compute-sanitizer is not on this machine: memcheck and racecheck did not run"
    failures=$((failures + 1))
fi
echo
echo "$failures part(s) failed; results are in $out"
exit "$failures"
