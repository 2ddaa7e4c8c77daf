#!/usr/bin/env bash
# Whether a GPU's race is the CPU's bit for bit: from the repository's root, with build/bundle made by
# `./dev bundle`.
#   OUT=FOLDER bench/gpu/race.sh     the log goes to FOLDER (default: bench/results)
set -uo pipefail
cd "$(dirname "$0")/../.."
bundle=$PWD/build/bundle
out=${OUT:-bench/results}

[ -x "$bundle/run" ] || { echo "there is no $bundle: make it with ./dev bundle" >&2; exit 1; }
mkdir -p "$out"
# Without it the tests would skip what they cannot run, and pass.
export CROUPIER_TEST_GPU=required
{
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
    lscpu | grep -E '^(Model name|CPU\(s\)):'
    timeout 300 "$bundle/run" test_gpu_writer "[race]" -d yes
} 2>&1 | tee "$out/race.log"
exit "${PIPESTATUS[0]}"
