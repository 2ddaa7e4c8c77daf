#!/usr/bin/env bash
# Tests and times the kernels of lean steps on a GPU host. Run from the repository's root, with build/bundle made by
# `./dev bundle`.
#   [PARTS=tests,kernels,sanitizer] [BATCHES=1,256] OUT=FOLDER bench/gpu/lean.sh
# OUT (default: bench/results) gets lean.log, lean.json and the logs of compute-sanitizer.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
bundle=$PWD/build/bundle
out=${OUT:-bench/results} parts=${PARTS:-tests,kernels,sanitizer}
failures=0

[ -x "$bundle/run" ] || { echo "cannot find $bundle: create it with ./dev bundle" >&2; exit 1; }
mkdir -p "$out"
wants() { [[ ,$parts, == *,$1,* ]]; }
# Without a GPU the tests would skip everything and pass.
export CROUPIER_TEST_GPU=required

if wants tests; then
    timeout 60 "$bundle/run" test_gpu_writer "[lean]" -d yes >"$out/lean.log" 2>&1 || failures=$((failures + 1))
    tail -n 25 "$out/lean.log"
fi
if wants kernels; then
    timeout 100 "$bundle/run" croupier-bench lean ${BATCHES:+--batches "$BATCHES"} --json >"$out/lean.json" ||
        failures=$((failures + 1))
    echo "$out/lean.json"
fi
if wants sanitizer; then
    checker=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
    for tool in memcheck racecheck; do
        timeout 45 "$bundle/run" "$checker" --tool "$tool" --error-exitcode 9 "$bundle/bin/test_gpu_writer" \
            "[lean][sanitized]" >"$out/lean-$tool.log" 2>&1 || failures=$((failures + 1))
        tail -n 5 "$out/lean-$tool.log"
    done
fi
echo "$failures part(s) failed; results are in $out"
exit "$failures"
