#!/usr/bin/env bash
# Measures steps from logits to tokens in GPU memory, and the same controls in PyTorch on the same GPUs. Run from the
# repository's root, with build/bundle made by `./dev bundle`.
#   OUT=FOLDER bench/gpu/step_latency.sh TP [SAMPLERS]     step-latency-tpN.json goes to FOLDER (default: bench/results)
# Every token is verified against the reference after each run.
set -uo pipefail
cd "$(dirname "$0")/../.."
bundle=$PWD/build/bundle
tp=${1:?the number of GPUs}
samplers=${2:-14}
out=${OUT:-bench/results}
steps=${STEPS:-128}
failures=0

[ -x "$bundle/run" ] || { echo "cannot find $bundle: create it with ./dev bundle" >&2; exit 1; }
mkdir -p "$out/steps-tp$tp"
. bench/gpu/cublas.sh

for batch in 1 8 32 128 256; do
    for summaries in "" --summaries; do
        name=$batch${summaries:+-summaries}
        "$bundle/run" croupier sim --writer cuda --tp "$tp" --batch "$batch" --in-flight 1 --mix fixed --samplers "$samplers" \
            --wait spin $summaries --prompt-max 1024 --output-max "$steps" --steps "$steps" --verify after --json \
            >"$out/steps-tp$tp/$name.json" 2>"$out/steps-tp$tp/$name.err" || failures=$((failures + 1))
        python3 - "$out/steps-tp$tp/$name.json" "$name" <<'END' || tail -n 3 "$out/steps-tp$tp/$name.err"
import json, sys
r = json.load(open(sys.argv[1]))
print(f"{sys.argv[2]:>14}: on the GPU p50 {r['hbm_to_hbm_us']['p50']:8.1f} p99 {r['hbm_to_hbm_us']['p99']:8.1f} us, "
      f"decisions p50 {r['decision_us']['p50']:7.1f} p99 {r['decision_us']['p99']:7.1f} us after the last byte, "
      f"{r['verified']} of {r['tokens']} tokens verified, {r['mismatched']} differ")
END
    done
done
# PyTorch needs a GPU per rank; croupier can share GPUs.
if [ "$(nvidia-smi -L | wc -l)" -ge "$tp" ]; then
    python3 bench/gpu/torch_sampler.py --tp "$tp" >"$out/torch-tp$tp.json" || failures=$((failures + 1))
    cat "$out/torch-tp$tp.json"
fi
bench/gpu/collect.py "$out/steps-tp$tp" "$out/torch-tp$tp.json" >"$out/step-latency-tp$tp.json"
echo "$failures part(s) failed; results are in $out"
exit "$failures"
