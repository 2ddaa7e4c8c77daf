#!/usr/bin/env bash
# One GPU: microseconds from logits to tokens for each kind of request (kind_steps.py), with torch on the host and the
# wheel of ./dev wheel in build/wheels.
#     bench/gpu/kind_steps.sh OUT [OPTIONS of kind_steps.py]
# OUT gets kind-steps.json.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -ge 1 ] || { sed -n 2,5p bench/gpu/kind_steps.sh >&2; exit 2; }
out=$1
mkdir -p "$out"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
. bench/gpu/venv.sh
PYTHONPATH=bench/vllm:bench/verified:bench/windows "$venv_python" bench/gpu/kind_steps.py "$out/kind-steps.json" "${@:2}"
