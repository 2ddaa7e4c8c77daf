#!/usr/bin/env bash
# From logits in a GPU's memory to tokens there, Croupier's lean steps beside vLLM's own sampler on one GPU, one after the
# other: from the repository's root, with build/bundle (`./dev bundle`) and what bench/vllm/package.sh packs.
#   OUT=FOLDER bench/gpu/beside_sampler.sh [SAMPLERS]     writes FOLDER/beside-sampler.json and prints the table
# BATCHES and STEPS may be given. Croupier's tokens are verified; vLLM's engine has logits of its own, as wide and as spread.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
out=${OUT:-bench/results} batches=${BATCHES:-1 8 32 64 128 256}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
OUT=$work BATCHES=$batches MIXES="fixed fixed-temperature fixed-top-p" TRANSPORTS=lean PARTS=steps STEPS=${STEPS:-160} \
    bench/gpu/lean_steps.sh 1 "${1:-14}" || exit
bench/vllm/run.sh "$work" sampler.py --batches "${batches// /,}" || exit
python3 - "$work" "$out/beside-sampler.json" "${1:-14}" <<'END'
import json, pathlib, sys
sys.path.insert(0, "bench/gpu")
import collect
work, out, samplers = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
native = {(each["mix"], each["columns"]): each["us"] for each in json.loads((work / "sampler.json").read_text())["results"]}
rows = []
for path in sorted((work / "lean-steps-tp1").glob("fixed*-lean.json")):
    mix, columns, _ = path.stem.rsplit("-", 2)
    run = json.loads(path.read_text())
    row = {"mix": mix, "columns": int(columns), "croupier_us": run["hbm_to_hbm_us"], "decision_us": run["decision_us"],
           "verified": run["verified"], "mismatched": run["mismatched"], "vllm_us": native.get((mix, int(columns)))}
    if mix == "fixed":
        row["vllm_unseeded_us"] = native.get(("fixed-unseeded", int(columns)))
    rows.append(row)
print("| requests | columns | Croupier, p50 / p99 us | vLLM | vLLM, unseeded |\n| --- | --- | --- | --- | --- |")
for row in sorted(rows, key=lambda row: (row["mix"], row["columns"])):
    words = [f"{us['p50']:.0f} / {us['p99']:.0f}" if us else "" for us in (row["croupier_us"], row["vllm_us"], row.get("vllm_unseeded_us"))]
    print(f"| {row['mix']} | {row['columns']} | " + " | ".join(words) + " |")
result = {"command": f"bench/gpu/beside_sampler.sh {samplers}", "environment": collect.environment(), "results": rows}
json.dump(result, open(out, "w"), indent=1)
END
