#!/usr/bin/env bash
# A lean step's kernels on a GPU host: whether they lay what the host lays, their words last, and how long a step takes:
# from the repository's root, with build/bundle made by `./dev bundle`.
#   OUT=FOLDER bench/gpu/lean.sh     lean.json and lean.log go to FOLDER (default: bench/results)
set -euo pipefail
cd "$(dirname "$0")/../.."
bundle=$PWD/build/bundle
out=${OUT:-bench/results}

[ -x "$bundle/run" ] || { echo "there is no $bundle: make it with ./dev bundle" >&2; exit 1; }
mkdir -p "$out"
# Without it the tests would skip what they cannot run, and pass.
export CROUPIER_TEST_GPU=required
timeout 120 "$bundle/run" test_gpu_writer "[lean]" -d yes 2>&1 | tee "$out/lean.log"
timeout 100 "$bundle/run" croupier-bench lean --json >"$out/lean.json"
echo "$out/lean.json"
