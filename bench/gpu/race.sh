#!/usr/bin/env bash
# Checks that races on a GPU and on the CPU are identical bit for bit. Run from the repository's root, with
# build/bundle made by `./dev bundle`.
#   OUT=FOLDER bench/gpu/race.sh     the log goes to FOLDER (default: bench/results)
set -uo pipefail
cd "$(dirname "$0")/../.."
bundle=$PWD/build/bundle
out=${OUT:-bench/results}

[ -x "$bundle/run" ] || { echo "cannot find $bundle: create it with ./dev bundle" >&2; exit 1; }
mkdir -p "$out"
# Without a GPU the tests would skip everything and pass.
export CROUPIER_TEST_GPU=required
{
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
    lscpu | grep -E '^(Model name|CPU\(s\)):'
    timeout 300 "$bundle/run" test_gpu_writer "[race]" -d yes
} 2>&1 | tee "$out/race.log"
exit "${PIPESTATUS[0]}"
