#!/usr/bin/env bash
# Compares Croupier's lean steps with vLLM's own sampler on one GPU, from logits to tokens in GPU memory. Run from
# the repository's root, with build/bundle (`./dev bundle`) and the archives of bench/vllm/package.sh.
#   OUT=FOLDER bench/gpu/beside_sampler.sh [SAMPLERS]     writes FOLDER/beside-sampler.json and prints the table
# FOLDER/beside-sampler-steps.json has all steps of Croupier. BATCHES and STEPS are optional. Croupier's tokens are
# verified. vLLM's engine has other logits of the same size and spread.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
out=${OUT:-bench/results} batches=${BATCHES:-1 8 32 64 128 256}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
OUT=$work AWAIT=1 BATCHES=$batches MIXES="fixed fixed-temperature fixed-top-p" TRANSPORTS=lean PARTS=steps STEPS=${STEPS:-160} \
    bench/gpu/lean_steps.sh 1 "${1:-12}" || exit
cp "$work/lean-steps-tp1.json" "$out/beside-sampler-steps.json"
bench/vllm/run.sh "$work" sampler.py --batches "${batches// /,}" || exit
bench/gpu/beside_table.py "$work" "$out/beside-sampler.json" "${1:-12}"
